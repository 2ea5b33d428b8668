"""The loops of the quantized convolution with groups on Arm. TVM objects are Any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import code_shape, qtir, tir
from kernels.qband import Band, emit_band
from kernels.qblocks import QUAD
from kernels.qfinish import Finish
from kernels.qgemm_plan import signedness
from kernels.qworkload import QConv2d
from kernels.space import Config

LANE, DOT = "lane", "dot"
"""How channels meet filters: words one by one (``smlal``), or four bytes at a time (``sdot``, ``udot``)."""
CHANNELS = {LANE: 8, DOT: 16}
"""Of a vector."""
UNIT = {LANE: 1, DOT: 4}
"""Channels that are multiplied at a time."""


@dataclass(frozen=True)
class Tile:
    """``count`` times ``filters`` filters of a group from number ``first`` on, side by side."""

    first: int
    filters: int
    count: int

    @property
    def quads(self) -> int:
        """Vectors of sums for one window."""
        return -(-self.filters // QUAD)


@dataclass(frozen=True)
class Plan:
    """``windows`` of a row by ``quads`` fours of filters in registers, ``rows`` of output in a band."""

    conv: QConv2d
    multiply: str
    windows: int
    quads: int
    rows: int

    @classmethod
    def of(cls, conv: QConv2d, config: Config) -> Plan:
        """Read a config."""
        windows, quads = map(int, str(config["block"]).split("x"))
        return cls(conv, str(config["multiply"]), windows, quads, config.int("rows"))

    @property
    def dtype(self) -> str:
        """The type of what is multiplied."""
        if self.multiply == LANE:
            return "int16"
        return "uint8" if signedness(self.conv) is False else "int8"

    @property
    def offset(self) -> int:
        """What is added to the data for that: bytes of the other sign."""
        if self.dtype in ("int16", self.conv.data_dtype):
            return 0
        return 128 if self.dtype == "uint8" else -128

    @property
    def filters(self) -> int:
        """Filters of a group."""
        return self.conv.out_c // self.conv.groups

    @property
    def depth(self) -> int:
        """Channels of a group."""
        return self.conv.in_c // self.conv.groups

    @property
    def channels(self) -> int:
        """Channels of a group, filled up to whole units."""
        return -(-self.depth // UNIT[self.multiply]) * UNIT[self.multiply]

    @property
    def band(self) -> Band:
        """The copy of the input, as words or as the bytes that they are."""
        dtype = "int16" if self.multiply == LANE else self.conv.data_dtype
        return Band(self.conv, self.rows, dtype, 0, CHANNELS[self.multiply])

    @property
    def tiles(self) -> list[Tile]:
        """The filters of a group: whole tiles, then what is left."""
        width = self.quads * QUAD
        whole, rest = divmod(self.filters, width)
        tiles = [Tile(0, width, whole)] if whole else []
        return [*tiles, Tile(whole * width, rest, 1)] if rest else tiles

    @property
    def of_group(self) -> int:
        """Elements of a group's packed weights."""
        quads = sum(tile.count * tile.quads for tile in self.tiles)
        return self.conv.kh * self.conv.kw * self.channels * quads * QUAD

    @property
    def packed(self) -> int:
        """Elements of the packed weights."""
        return self.conv.groups * self.of_group


class Nest:
    """Emits one function's loops: bands, groups, tiles of filters, rows, and blocks of windows."""

    def __init__(self, plan: Plan, args: qtir.QArguments, finish: Finish) -> None:
        self.plan, self.conv, self.args, self.finish = plan, plan.conv, args, finish
        self.band = plan.band

    def run(self, threads: int) -> None:
        """All bands of all images, shared out over the threads; the last one of an image ends with it."""
        plan, conv = self.plan, self.conv
        bands = -(-conv.out_h // plan.rows)
        with tir.loop(conv.n * bands, threads) as number:
            image = T.Bind(number // bands)
            first = T.Bind(tir.least(number % bands * plan.rows, conv.out_h - plan.rows))
            copy = qtir.scratch(self.band.elements, self.band.dtype)
            emit_band(self.band, self.args.data, copy, image, first, CHANNELS[plan.multiply])
            pixel = T.Bind((image * conv.out_h + first) * conv.out_w)
            with tir.loop(conv.groups) as group:
                for tile in plan.tiles:
                    with tir.loop(tile.count) as turn:
                        filters = T.Bind(turn * tile.filters + tile.first)
                        self._tile(tile, copy, pixel, group, filters)

    def _tile(self, tile: Tile, copy: Any, pixel: Any, group: Any, filters: Any) -> None:
        """One tile of filters, of all windows of the band."""
        plan, conv = self.plan, self.conv
        taps = conv.kh * conv.kw * plan.channels
        weights = T.Bind(group * plan.of_group + filters * taps)
        first = T.Bind(group * plan.filters + filters)
        with tir.loop(plan.rows) as row:
            for start, width, count in _blocks(conv.out_w, plan.windows):
                with tir.loop(count) as number:
                    column = T.Bind(number * width + start)
                    at = T.Bind(self.band.window(row, column) + group * plan.depth)
                    sums = self._sums(tile, width, copy, at, weights, first)
                    out = T.Bind((pixel + row * conv.out_w + column) * conv.out_c + first)
                    self.finish.block(sums, first, tile.filters, out, conv.out_c)

    def _sums(
        self, tile: Tile, windows: int, copy: Any, at: Any, weights: Any, first: Any
    ) -> list[list[Any]]:
        """The sums of a block by window and by four filters, with the bias."""
        plan, conv, quads = self.plan, self.conv, range(tile.quads)
        sums = qtir.registers(windows * tile.quads * QUAD)
        slots = [
            [tir.vector((window * tile.quads + quad) * QUAD, QUAD) for quad in quads]
            for window in range(windows)
        ]
        bias = [T.Bind(self.args.bias[tir.vector(first + quad * QUAD, QUAD)]) for quad in quads]
        for row in slots:
            for slot, value in zip(row, bias, strict=True):
                tir.store(sums, value, slot)

        unit, most = UNIT[plan.multiply], CHANNELS[plan.multiply]

        def step(source: Any, panel: Any, channels: int) -> None:
            pitch = self.band.window(0, 1)
            data = [self._data(copy, source + window * pitch) for window in range(windows)]
            for number in range(channels // unit):
                for quad in quads:
                    place = panel + (number * tile.quads + quad) * (QUAD * unit)
                    column = T.Bind(self.args.weights[tir.vector(place, QUAD * unit)])
                    for window, row in enumerate(slots):
                        tir.store(sums, self._added(sums[row[quad]], column, data[window], number), row[quad])

        whole, rest = divmod(plan.channels, most)
        width = tile.quads * QUAD
        with T.serial(0, conv.kh) as down, code_shape.kept_loop(conv.kw) as across:
            source = T.Bind(at + self.band.tap(down, across))
            panel = T.Bind(weights + (down * conv.kw + across) * (plan.channels * width))
            if whole:
                with code_shape.kept_loop(whole) as part:
                    step(T.Bind(source + part * most), T.Bind(panel + part * (most * width)), most)
            if rest:
                step(source + whole * most, panel + whole * most * width, rest)
        return [[sums[slot] for slot in row] for row in slots]

    def _data(self, copy: Any, at: Any) -> Any:
        """A vector of a window's channels, of the type that is multiplied."""
        plan, lanes = self.plan, CHANNELS[self.plan.multiply]
        value = copy[tir.vector(at, lanes)]
        if plan.offset:
            # 128 more or less: the upper bit flips.
            value = qtir.reinterpret(value, "uint8", lanes) ^ qtir.const(128, "uint8", lanes)
            value = qtir.reinterpret(value, plan.dtype, lanes)
        return T.Bind(value)

    def _added(self, total: Any, column: Any, data: Any, unit: int) -> Any:
        """``total`` and the products of four filters' ``column`` by one unit of ``data``."""
        if self.plan.multiply == LANE:
            lane = tirx.Shuffle([data], [tir.index(unit)] * QUAD)
            return total + column.astype("int32x4") * lane.astype("int32x4")
        lane = tirx.Shuffle([data], [tir.index(unit * 4 + byte) for _ in range(QUAD) for byte in range(4)])
        name = f"llvm.aarch64.neon.{'s' if self.plan.dtype == 'int8' else 'u'}dot.v4i32.v16i8"
        return tirx.call_llvm_pure_intrin("int32x4", name, total, column, lane)


def _blocks(total: int, most: int) -> Iterator[tuple[int, int, int]]:
    """(first, windows, count) of blocks of at most ``most`` windows, as even as can be."""
    blocks = -(-total // most)
    small, larger = divmod(total, blocks)
    if larger:
        yield 0, small + 1, larger
    yield larger * (small + 1), small, blocks - larger
