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
from kernels.qworkload import QConv2d
from kernels.space import Config

CHANNELS = 8
"""16-bit channels of a vector."""


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
    windows: int
    quads: int
    rows: int

    @classmethod
    def of(cls, conv: QConv2d, config: Config) -> Plan:
        """Read a config."""
        windows, quads = map(int, str(config["block"]).split("x"))
        return cls(conv, windows, quads, config.int("rows"))

    @property
    def filters(self) -> int:
        """Filters of a group."""
        return self.conv.out_c // self.conv.groups

    @property
    def depth(self) -> int:
        """Channels of a group."""
        return self.conv.in_c // self.conv.groups

    @property
    def band(self) -> Band:
        """The copy of the input, in 16 bits."""
        return Band(self.conv, self.rows, "int16", 0, CHANNELS)

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
        return self.conv.kh * self.conv.kw * self.depth * quads * QUAD

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
            copy = qtir.scratch(self.band.elements, "int16")
            emit_band(self.band, self.args.data, copy, image, first, CHANNELS)
            pixel = T.Bind((image * conv.out_h + first) * conv.out_w)
            with tir.loop(conv.groups) as group:
                for tile in plan.tiles:
                    with tir.loop(tile.count) as turn:
                        filters = T.Bind(turn * tile.filters + tile.first)
                        self._tile(tile, copy, pixel, group, filters)

    def _tile(self, tile: Tile, copy: Any, pixel: Any, group: Any, filters: Any) -> None:
        """One tile of filters, of all windows of the band."""
        plan, conv = self.plan, self.conv
        taps = conv.kh * conv.kw * plan.depth
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

        def step(source: Any, panel: Any, channels: int) -> None:
            pitch = self.band.window(0, 1)
            data = [T.Bind(copy[tir.vector(source + window * pitch, CHANNELS)]) for window in range(windows)]
            for channel in range(channels):
                for quad in quads:
                    place = panel + (channel * tile.quads + quad) * QUAD
                    column = T.Bind(self.args.weights[tir.vector(place, QUAD)])
                    for window, row in enumerate(slots):
                        lane = T.Bind(_lane(data[window], channel))
                        tir.store(sums, sums[row[quad]] + _product(column, lane), row[quad])

        whole, rest = divmod(plan.depth, CHANNELS)
        width = tile.quads * QUAD
        with T.serial(0, conv.kh) as down, code_shape.kept_loop(conv.kw) as across:
            source = T.Bind(at + self.band.tap(down, across))
            panel = T.Bind(weights + (down * conv.kw + across) * (plan.depth * width))
            if whole:
                with code_shape.kept_loop(whole) as part:
                    step(
                        T.Bind(source + part * CHANNELS), T.Bind(panel + part * (CHANNELS * width)), CHANNELS
                    )
            if rest:
                step(source + whole * CHANNELS, panel + whole * CHANNELS * width, rest)
        return [[sums[slot] for slot in row] for row in slots]


def _blocks(total: int, most: int) -> Iterator[tuple[int, int, int]]:
    """(first, windows, count) of blocks of at most ``most`` windows, as even as can be."""
    blocks = -(-total // most)
    small, larger = divmod(total, blocks)
    if larger:
        yield 0, small + 1, larger
    yield larger * (small + 1), small, blocks - larger


def _lane(data: Any, lane: int) -> Any:
    return tirx.Shuffle([data], [tir.index(lane)] * QUAD)


def _product(column: Any, lane: Any) -> Any:
    return column.astype("int32x4") * lane.astype("int32x4")
