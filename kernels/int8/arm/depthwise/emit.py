"""The loops of the quantized depthwise convolution: bands of rows, tiles of windows, groups of channels."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, tir
from kernels.emit.tvm import T
from kernels.emit.types import Index, Vector
from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.depthwise.plan import ALONG, TOGETHER, TOUCH, Plan
from kernels.int8.arm.depthwise.stage import Stage
from kernels.int8.arm.finish import Finish
from kernels.int8.arm.operands import multiplied
from kernels.int8.tir import QArguments
from kernels.isa.arm import ARM32

Corner = tuple[int | None, int | None]
"""Row and column of the data where a window begins, if it reaches into padding there."""


def emit(plan: Plan, args: QArguments) -> None:
    """The loops over bands, channels, rows and tiles."""
    with code_shape.linked():
        Nest(plan, args).run()


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        self.finish = Finish(args, plan.knobs.requant, plan.target.isa is ARM32)

    def run(self) -> None:
        """All chunks of all bands of all images, shared out over the threads."""
        plan, conv, band = self.plan, self.conv, self.plan.knobs.band
        chunks = conv.in_c // plan.knobs.chunk
        with tir.loop(conv.n * chunks * plan.bands, plan.threads) as turn:
            image = T.Bind(turn // (chunks * plan.bands))
            channel = T.Bind(turn // plan.bands % chunks * plan.knobs.chunk)
            first = T.Bind(turn % plan.bands * band)
            count = T.Bind(tir.least(band, conv.out_h - first)) if conv.out_h % band else band
            top = T.Bind(first * conv.stride[0] - conv.pad[0])
            if plan.staged:
                self.source = tir.scratch(
                    plan.rows * plan.columns * plan.pitch + plan.slack, plan.packed_dtype
                )
                Stage(plan, self.args.data, self.source).fill(image, top, channel)
                at: Index = tir.index(0)
            else:
                self.source = self.args.data
                at = T.Bind(((image * conv.in_h + top) * conv.in_w - conv.pad[1]) * conv.in_c + channel)
            self._band(at, count, T.Bind((image * conv.out_h + first) * conv.out_w), channel)

    def _band(self, at: Index, count: Index, window: Index, channel: Index) -> None:
        """``count`` rows of output whose first window is number ``window`` of all, from ``channel`` on."""
        plan, conv = self.plan, self.conv
        pitch = conv.stride[0] * plan.columns * plan.pitch
        down, across = plan.inside

        def row(number: Index, parts: Sequence[range], top: int | None = None) -> None:
            start, first = T.Bind(at + number * pitch), T.Bind(window + number * conv.out_w)
            for columns in parts:
                self._row(start, first, channel, columns, top)

        if plan.staged:
            with tir.loop(count) as y:
                row(y, [across])
            return
        left, right = range(across.start), range(across.stop, conv.out_w)
        for y in range(down.start):
            row(tir.index(y), [left, across, right], y * conv.stride[0] - conv.pad[0])
        for parts in ([left, across, right],) if plan.knobs.edges == ALONG else ([left], [right], [across]):
            if any(parts) and down:
                with T.serial(down.start, down.stop) as number:
                    row(number, parts)
        for y in range(down.stop, conv.out_h):
            row(tir.index(y), [left, across, right], y * conv.stride[0] - conv.pad[0])

    def _row(self, start: Index, window: Index, channel: Index, columns: range, top: int | None) -> None:
        """The windows of some columns of one row; ``top`` is the row of the data where they begin if they
        reach into the padding."""
        plan, conv = self.plan, self.conv

        def windows(x: Index, count: int, left: int | None = None) -> None:
            here = T.Bind(start + x * (conv.stride[1] * plan.pitch))
            if plan.knobs.stage == TOUCH and top is None and left is None:
                self._touch(here, count)
            self._windows(here, T.Bind(window + x), count, channel, (top, left))

        if columns != plan.inside[1]:
            for x in columns:
                windows(tir.index(x), 1, x * conv.stride[1] - conv.pad[1])
            return
        tiles, rest = divmod(len(columns), plan.knobs.tile)
        if tiles:
            with tir.loop(tiles) as t:
                windows(T.Bind(columns.start + t * plan.knobs.tile), plan.knobs.tile)
        if rest:
            windows(tir.index(columns.stop - rest), rest)

    def line(self, i: int) -> Index:
        """Where the row of the data that tap row ``i`` reads begins, from the first one on."""
        return i * (self.conv.dilation[0] * self.plan.columns * self.plan.pitch)

    def _touch(self, at: Index, windows: int) -> None:
        """Load an element of each line that the ``windows`` windows from element ``at`` on are the first to
        need, one row after the other, as prefetchers see lines coming."""
        plan, conv, line = self.plan, self.conv, self.plan.target.line_bytes
        reach = (conv.kw - 1) * conv.dilation[1] + 1
        known = max(0, reach - conv.stride[1])
        length = ((windows - 1) * conv.stride[1] + reach - known) * plan.pitch
        with T.serial(0, conv.kh) as i:
            row = T.Bind(at + i * (conv.dilation[0] * plan.columns * plan.pitch) + known * plan.pitch)
            with tir.loop(ceil_div(length, line)) as number:
                code_shape.touch(self.args.data, row + number * line)

    def _windows(self, at: Index, window: Index, windows: int, channel: Index, corner: Corner) -> None:
        """``windows`` windows of all groups of channels of the chunk."""
        plan, lanes = self.plan, self.plan.lanes
        groups = [(plan.knobs.chunk // lanes, 0, lanes)]
        if plan.knobs.chunk % lanes:  # they overlap those before, if there are as many
            groups.append((1, max(0, plan.knobs.chunk - lanes), min(plan.knobs.chunk, lanes)))
        for number, offset, filters in groups:
            with tir.loop(number) as g:
                here = T.Bind(offset + g * lanes)
                self._tile(at + here, window, windows, channel + here, filters, corner)

    def _tile(
        self, at: Index, window: Index, windows: int, channel: Index, filters: int, corner: Corner
    ) -> None:
        """``windows`` windows of one group of channels: all taps unrolled, sums in registers."""
        plan, conv, lanes, args = self.plan, self.conv, self.plan.lanes, self.args
        at, window, channel = T.Bind(at), T.Bind(window), T.Bind(tir.index(channel))
        sums = tir.registers(windows * lanes, "int32")
        slots = [tir.vector(w * lanes, lanes) for w in range(windows)]
        bias = T.Bind(args.bias[tir.vector(channel, lanes)])
        for slot in slots:
            tir.store(sums, bias, slot)
        loaded: dict[tuple[int, int], Vector] = {}
        padding = tir.const(conv.data_zero + plan.offset, plan.packed_dtype, lanes)

        def data(i: int, column: int) -> Vector:
            at_row, at_column = (
                start is None or 0 <= start + step < extent
                for start, step, extent in zip(
                    corner, (i * conv.dilation[0], column), (conv.in_h, conv.in_w), strict=True
                )
            )
            if not (at_row and at_column):
                return padding
            if (i, column) not in loaded:
                place = at + self.line(i) + column * plan.pitch
                loaded[i, column] = T.Bind(multiplied(self.source, place, plan.packed_dtype, lanes))
            return loaded[i, column]

        taps = [(i, j) for i in range(conv.kh) for j in range(conv.kw)]
        together = TOGETHER[plan.knobs.multiply]
        # Bytes are multiplied to 16 bits, and some products are added there; words to 32 bits at once.
        product = "int16" if together > 1 else "int32"
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
                    term = tir.convert(value, product, lanes) * tir.convert(weight, product, lanes)
                    part = term if part is None else part + term
                tir.store(sums, sums[slot] + tir.convert(part, "int32", lanes), slot)
        rows = [
            [sums[tir.vector(w * lanes + quad, QUAD)] for quad in range(0, lanes, QUAD)]
            for w in range(windows)
        ]
        self.finish.block(rows, channel, filters, T.Bind(window * conv.in_c + channel), conv.in_c)
