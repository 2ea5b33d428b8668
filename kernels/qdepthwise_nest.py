"""The loops of the quantized depthwise convolution: bands of rows, tiles of windows, groups of channels.

TVM objects are Any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import code_shape, qtir, tir
from kernels.qblocks import QUAD
from kernels.qfinish import Finish
from kernels.qworkload import QConv2d

WIDE, PAIRS = "wide", "pairs"
NONE, TOUCH, BAND = "none", "touch", "band"
"""How the data come near: as windows ask for them, a line after the other ahead of windows, or by a copy."""
COPIED = 16
"""Elements that a copy moves at once."""


@dataclass(frozen=True)
class Plan:
    """One config: ``band`` rows of output and ``chunk`` channels at a time, ``tile`` windows in registers.

    With ``stage`` ``band`` the input of a band is copied: padded, and as the products want it. ``along`` says
    that windows at the left and right edges are computed with their row, not before all others.
    """

    conv: QConv2d
    multiply: str
    stage: str
    band: int
    tile: int
    chunk: int
    along: bool
    line: int
    """Bytes of a cache line."""

    @property
    def staged(self) -> bool:
        """Whether there is a copy."""
        return self.stage == BAND

    @property
    def dtype(self) -> str:
        """The type that is multiplied."""
        return "int16" if self.multiply == WIDE else "int8"

    @property
    def offset(self) -> int:
        """What is added to the data."""
        return -128 if self.multiply == PAIRS and self.conv.data_dtype == "uint8" else 0

    @property
    def lanes(self) -> int:
        """Channels in a group."""
        return 8 if self.conv.in_c >= 8 else QUAD

    @property
    def slack(self) -> int:
        """Channels that a group reads beyond the last one."""
        return max(0, self.lanes - self.conv.in_c)

    @property
    def pitch(self) -> int:
        """Elements between neighbouring columns of what is read."""
        return self.chunk if self.staged else self.conv.in_c

    @property
    def inside(self) -> tuple[range, range]:
        """Rows and columns of windows that do not reach into the padding; with a copy, all do not."""
        conv = self.conv
        if self.staged:
            return range(conv.out_h), range(conv.out_w)
        down = _inside(conv.pad[0], conv.stride[0], (conv.kh - 1) * conv.dilation[0], conv.in_h, conv.out_h)
        return down, _inside(
            conv.pad[1], conv.stride[1], (conv.kw - 1) * conv.dilation[1], conv.in_w, conv.out_w
        )

    @property
    def unrolled(self) -> int:
        """Taps in the code: windows at the edges have their own."""
        conv, (down, across) = self.conv, self.inside
        rows = conv.out_h - len(down) + bool(down)
        width = len(across)
        windows = conv.out_w - width + min(width, self.tile + width % self.tile)
        return rows * windows * conv.kh * conv.kw

    @property
    def bands(self) -> int:
        """Bands of one image."""
        return -(-self.conv.out_h // self.band)

    @property
    def rows(self) -> int:
        """Rows of input that a band needs."""
        conv = self.conv
        return (self.band - 1) * conv.stride[0] + (conv.kh - 1) * conv.dilation[0] + 1

    @property
    def columns(self) -> int:
        """Columns between the beginnings of the rows that are read."""
        conv = self.conv
        if not self.staged:
            return conv.in_w
        return (conv.out_w - 1) * conv.stride[1] + (conv.kw - 1) * conv.dilation[1] + 1


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: qtir.QArguments, finish: Finish) -> None:
        self.plan, self.conv, self.args, self.finish = plan, plan.conv, args, finish

    def run(self, threads: int) -> None:
        """All chunks of all bands of all images, shared out over the threads."""
        plan, conv = self.plan, self.conv
        chunks = conv.in_c // plan.chunk
        with tir.loop(conv.n * chunks * plan.bands, threads) as turn:
            image = T.Bind(turn // (chunks * plan.bands))
            channel = T.Bind(turn // plan.bands % chunks * plan.chunk)
            first = T.Bind(turn % plan.bands * plan.band)
            count = plan.band
            if conv.out_h % plan.band:
                count = T.Bind(tir.least(plan.band, conv.out_h - first))
            top = T.Bind(first * conv.stride[0] - conv.pad[0])
            if plan.staged:
                source = qtir.scratch(plan.rows * plan.columns * plan.chunk + plan.slack, plan.dtype)
                self._stage(source, image, top, channel)
                at: Any = tir.index(0)
            else:
                source = self.args.data
                at = T.Bind(((image * conv.in_h + top) * conv.in_w - conv.pad[1]) * conv.in_c + channel)
            self._band(source, at, count, T.Bind((image * conv.out_h + first) * conv.out_w), channel)

    def _stage(self, stage: Any, image: Any, top: Any, channel: Any) -> None:
        """Copy a chunk of the rows from ``top`` on, with padding around them."""
        plan, conv, chunk = self.plan, self.conv, self.plan.chunk
        pitch = plan.columns * chunk
        left = min(conv.pad[1], plan.columns)
        inside = min(conv.in_w, plan.columns - left)
        right = plan.columns - left - inside
        with tir.loop(plan.rows) as row:
            y, at = T.Bind(top + row), T.Bind(row * pitch)
            with T.If(tirx.all(y >= 0, y < conv.in_h)):
                with T.Then():
                    source = T.Bind((image * conv.in_h + y) * (conv.in_w * conv.in_c) + channel)
                    begin = T.Bind(at + left * chunk)
                    self._fill(stage, at, left * chunk)
                    if chunk == conv.in_c:
                        self._copy(stage, begin, source, inside * chunk)
                    else:
                        with tir.loop(inside) as column:
                            self._copy(stage, begin + column * chunk, source + column * conv.in_c, chunk)
                    self._fill(stage, begin + inside * chunk, right * chunk)
                with T.Else():
                    self._fill(stage, at, pitch)

    def _copy(self, stage: Any, at: Any, source: Any, count: int) -> None:
        def copy(start: Any, width: int) -> None:
            value = self._converted(self.args.data[tir.vector(source + start, width)], width)
            tir.store(stage, value, tir.vector(at + start, width))

        _pieces(count, copy)

    def _fill(self, stage: Any, at: Any, count: int) -> None:
        value = self.conv.data_zero + self.plan.offset
        _pieces(
            count,
            lambda start, width: tir.store(
                stage, qtir.const(value, self.plan.dtype, width), tir.vector(at + start, width)
            ),
        )

    def _converted(self, value: Any, lanes: int) -> Any:
        """Elements of the data as they are multiplied."""
        if self.plan.dtype == "int16":
            return qtir.convert(value, "int16", lanes)
        if not self.plan.offset:
            return value
        return qtir.reinterpret(value ^ qtir.const(128, "uint8", lanes), "int8", lanes)

    def _band(self, source: Any, at: Any, count: Any, window: Any, channel: Any) -> None:
        """``count`` rows of output whose first window is number ``window`` of all, from ``channel`` on."""
        plan, conv = self.plan, self.conv
        pitch = conv.stride[0] * plan.columns * plan.pitch

        across = plan.inside[1]

        def row(number: Any, parts: Sequence[range], top: int | None = None) -> None:
            start, first = T.Bind(at + number * pitch), T.Bind(window + number * conv.out_w)
            for columns in parts:
                self._row(source, start, first, channel, columns, top)

        if plan.staged:
            with tir.loop(count) as y:
                row(y, [across])
            return
        left, right = range(across.start), range(across.stop, conv.out_w)
        down = plan.inside[0]
        for y in range(down.start):
            row(tir.index(y), [left, across, right], y * conv.stride[0] - conv.pad[0])
        for parts in ([left, across, right],) if plan.along else ([left], [right], [across]):
            if any(parts) and down:
                with T.serial(down.start, down.stop) as number:
                    row(number, parts)
        for y in range(down.stop, conv.out_h):
            row(tir.index(y), [left, across, right], y * conv.stride[0] - conv.pad[0])

    def _row(
        self, source: Any, start: Any, window: Any, channel: Any, columns: range, top: int | None
    ) -> None:
        """The windows of some columns of one row; ``top`` is the row of the data where they begin if they
        reach into the padding."""
        plan, conv = self.plan, self.conv

        def windows(x: Any, count: int, left: int | None = None) -> None:
            here = T.Bind(start + x * (conv.stride[1] * plan.pitch))
            if plan.stage == TOUCH and top is None and left is None:
                self._touch(here, count)
            self._windows(source, here, T.Bind(window + x), count, channel, (top, left))

        if columns != plan.inside[1]:
            for x in columns:
                windows(tir.index(x), 1, x * conv.stride[1] - conv.pad[1])
            return
        tiles, rest = divmod(len(columns), plan.tile)
        if tiles:
            with tir.loop(tiles) as t:
                windows(T.Bind(columns.start + t * plan.tile), plan.tile)
        if rest:
            windows(tir.index(columns.stop - rest), rest)

    def _touch(self, at: Any, windows: int) -> None:
        """Load an element of each line that the ``windows`` windows from element ``at`` on are the first to
        need, one row after the other, as prefetchers see lines coming."""
        plan, conv = self.plan, self.conv
        reach = (conv.kw - 1) * conv.dilation[1] + 1
        known = max(0, reach - conv.stride[1])
        length = ((windows - 1) * conv.stride[1] + reach - known) * plan.pitch
        with T.serial(0, conv.kh) as i:
            row = T.Bind(at + i * (conv.dilation[0] * plan.columns * plan.pitch) + known * plan.pitch)
            with tir.loop(-(-length // plan.line)) as number:
                code_shape.touch(self.args.data, row + number * plan.line)

    def _windows(
        self,
        source: Any,
        at: Any,
        window: Any,
        windows: int,
        channel: Any,
        corner: tuple[int | None, int | None],
    ) -> None:
        """``windows`` windows of all groups of channels of the chunk."""
        plan, lanes = self.plan, self.plan.lanes
        groups = [(plan.chunk // lanes, 0, lanes)]
        if plan.chunk % lanes:  # they overlap those before, if there are as many
            groups.append((1, max(0, plan.chunk - lanes), min(plan.chunk, lanes)))
        for number, offset, filters in groups:
            with tir.loop(number) as g:
                here = T.Bind(offset + g * lanes)
                self._tile(source, at + here, window, windows, channel + here, filters, corner)

    def _tile(
        self,
        source: Any,
        at: Any,
        window: Any,
        windows: int,
        channel: Any,
        filters: int,
        corner: tuple[int | None, int | None],
    ) -> None:
        """``windows`` windows of one group of channels: all taps unrolled, sums in registers.

        ``corner`` is the row and the column of the data where a window begins, if it reaches into padding
        there.
        """
        plan, conv, lanes, args = self.plan, self.conv, self.plan.lanes, self.args
        at, window, channel = T.Bind(at), T.Bind(window), T.Bind(tir.index(channel))
        sums = qtir.registers(windows * lanes)
        slots = [tir.vector(w * lanes, lanes) for w in range(windows)]
        bias = T.Bind(args.bias[tir.vector(channel, lanes)])
        for slot in slots:
            tir.store(sums, bias, slot)
        loaded: dict[tuple[int, int], Any] = {}
        padding = qtir.const(conv.data_zero + plan.offset, plan.dtype, lanes)

        def data(i: int, column: int) -> Any:
            at_row, at_column = (
                start is None or 0 <= start + step < extent
                for start, step, extent in zip(
                    corner, (i * conv.dilation[0], column), (conv.in_h, conv.in_w), strict=True
                )
            )
            if not (at_row and at_column):
                return padding
            if (i, column) not in loaded:
                offset = (i * conv.dilation[0] * plan.columns + column) * plan.pitch
                value = source[tir.vector(at + offset, lanes)]
                loaded[i, column] = T.Bind(value if plan.staged else self._converted(value, lanes))
            return loaded[i, column]

        taps = [(i, j) for i in range(conv.kh) for j in range(conv.kw)]
        together = 2 if plan.multiply == PAIRS else 1
        # "pairs" adds two products in 16 bits first, "wide" multiplies to 32 bits at once.
        product = "int16" if plan.multiply == PAIRS else "int32"
        for start in range(0, len(taps), together):
            some = taps[start : start + together]
            weights = [
                T.Bind(args.weights[tir.vector((i * conv.kw + j) * conv.in_c + channel, lanes)])
                for i, j in some
            ]
            for w, slot in enumerate(slots):
                part = None
                for (i, j), weight in zip(some, weights, strict=True):
                    value = data(i, w * conv.stride[1] + j * conv.dilation[1])
                    term = qtir.convert(value, product, lanes) * qtir.convert(weight, product, lanes)
                    part = term if part is None else part + term
                tir.store(sums, sums[slot] + qtir.convert(part, "int32", lanes), slot)
        rows = [
            [sums[tir.vector(w * lanes + quad, QUAD)] for quad in range(0, lanes, QUAD)]
            for w in range(windows)
        ]
        self.finish.block(rows, channel, filters, T.Bind(window * conv.in_c + channel), conv.in_c)


def _inside(before: int, stride: int, reach: int, extent: int, count: int) -> range:
    """The range of windows i of ``count`` with all of i * stride - before + (0 to reach) in ``extent``."""
    first = min(count, -(-before // stride))
    return range(first, max(first, min(count, (extent - 1 + before - reach) // stride + 1)))


def _pieces(count: int, emit: Callable[[Any, int], None]) -> None:
    """``emit(start, width)`` for ``count`` elements: whole copies in a loop, then smaller ones."""
    whole = count // COPIED
    if whole:
        with tir.loop(whole) as turn:
            emit(turn * COPIED, COPIED)
    start = whole * COPIED
    for width in (8, 4, 2, 1):
        if count - start & width:
            emit(tir.index(start), width)
            start += width
