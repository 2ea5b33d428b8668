"""The loops of a depthwise convolution beside a pointwise one.

What is between the two is made and read a few rows at a time, so that it stays in the caches. Nothing is
padded, and nothing else is copied.
"""

from __future__ import annotations

from kernels.emit import tir
from kernels.emit.shares import span
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Index, Vector
from kernels.float.chain.pair import Buffers
from kernels.float.depthwise.emit import Nest
from kernels.float.depthwise.plan import Place
from kernels.float.plan import Arguments
from kernels.float.separable.plan import SeparablePlan
from kernels.float.separable.points import Pixels, first_channels, points


def emit(plan: SeparablePlan, args: Buffers) -> None:
    """Every thread's share of the rows of the result."""
    first, second = plan.workload.parts
    parts = (
        Arguments(first, args.data, args.first_filters, args.out, args.first_bias),
        Arguments(second, args.data, args.second_filters, args.out, args.second_bias, args.residual),
    )
    way = _Spread if plan.spreads_first else _Expand
    with tir.loop(plan.threads, plan.threads) as part:
        loops = way(plan, *parts)
        rows: tuple[Index, Index] = (0, second.out_h)
        if plan.threads > 1:
            rows = span(second.out_h, part, plan.threads)
        with tir.loop(first.n) as image:
            loops.run(image, *rows)


class _Loops:
    """What both orders have in common: the cache between, and how data and result lie."""

    def __init__(self, plan: SeparablePlan, first: Arguments, second: Arguments) -> None:
        self.plan, self.first, self.second = plan, first, second
        self.between = tir.scratch(plan.between)
        one, two = plan.workload.parts
        lanes = plan.target.lanes()
        self.data = Place.of(plan.layouts.data, one.in_c, one.in_h, one.in_w, lanes)
        self.out = Place.of(plan.layouts.out, two.out_c, two.out_h, two.out_w, lanes)

    def store(self, value: Vector, at: Index) -> None:
        """A vector of results with the epilogue."""
        self.second.store_out(value, at, self.plan.lanes)


class _Spread(_Loops):
    """The depthwise convolution first: some rows of all its channels, then those of the result."""

    def run(self, image: Index, begin: Index, end: Index) -> None:
        """Rows of the result from ``begin`` to ``end``."""
        rows = self.plan.knobs.rows
        count = end - begin
        with tir.loop(count // rows) as turn:
            self._rows(image, T.Bind(begin + turn * rows), rows)
        if isinstance(count, int) and count % rows == 0:
            return
        with tir.loop(count % rows) as turn:
            self._rows(image, T.Bind(begin + count // rows * rows + turn), 1)

    def _rows(self, image: Index, row: Index, rows: int) -> None:
        plan, conv = self.plan, self.plan.depthwise
        groups, width = plan.depthwise_plan.groups, conv.out_w
        across = width * conv.out_c
        # The rows of the cache are counted from the first.
        cache = tir.From(self.between, -row * across)
        spread = Arguments(conv, self.first.data, self.first.weights, cache, self.first.bias)
        Nest(
            plan.depthwise_plan,
            spread,
            self.first.data,
            self.data,
            Place(0, 1, across, conv.out_c),
            lambda value, at: spread.store_out(value, at, plan.depthwise_plan.lanes),
        ).run((image * groups, (image + 1) * groups), (row, row + rows))
        pixels = Pixels(self.between, 0, conv.out_c, conv.out_c, 0)
        start = T.Bind(image * self.out.image + row * self.out.row)

        def finished(value: Vector, pixel: Index, channel: Index) -> None:
            at = start + pixel * self.out.column + channel * self.out.channel
            self.store(value, at)

        with tir.loop(plan.groups) as group:
            points(plan, self.second, pixels, rows * width, group, first_channels(plan, group), finished)


class _Expand(_Loops):
    """The depthwise convolution second: of one group of vectors after the other, all rows.

    The rows that its filter reaches take turns in the cache.
    """

    def run(self, image: Index, begin: Index, end: Index) -> None:
        """Rows of the result from ``begin`` to ``end``."""
        plan, conv = self.plan, self.plan.depthwise
        with tir.loop(plan.groups) as group:
            channels = first_channels(plan, group)
            with T.serial(begin, end) as row:
                top = T.Bind(row * conv.stride[0] - conv.pad[0])
                # The row before has left what both reach.
                known = T.Bind(tirx.if_then_else(row == begin, top, top - conv.stride[0] + plan.ring))
                first = T.Bind(tir.most(tir.most(top, known), 0))
                last = tir.least(top + plan.ring, conv.in_h)
                with T.serial(first, last) as line:
                    self._expand(image, line, group, channels)
                self._spread(image, row, group, channels[0])

    def _expand(self, image: Index, line: Index, group: Index, channels: list[Index]) -> None:
        """A row of the pointwise convolution to the cache."""
        plan, conv = self.plan, self.plan.pointwise
        width = plan.together * plan.lanes
        start = T.Bind(image * self.data.image + line * self.data.row)
        blocked = self.data.channel != 1
        run = self.data.column if blocked else conv.in_c
        step = self.data.channel * run
        to = T.Bind(line % plan.ring * (conv.in_w * width) - channels[0])

        def finished(value: Vector, pixel: Index, channel: Index) -> None:
            at = tir.vector(to + pixel * width + channel, plan.lanes)
            tir.store(self.between, self.first.finish(value, 0, plan.lanes), at)

        pixels = Pixels(self.first.data, start, self.data.column, run, step)
        points(plan, self.first, pixels, conv.in_w, group, channels, finished)

    def _spread(self, image: Index, row: Index, group: Index, channel: Index) -> None:
        """A row of the result."""
        plan, conv = self.plan, self.plan.depthwise
        width = plan.together * plan.lanes
        across = conv.in_w * width
        first = tir.least(group * plan.together, plan.vectors - plan.together)
        member = T.Bind(image * plan.vectors + first)
        # Members count their channels from the tensor's first one.
        cache = tir.From(self.between, -channel)
        Nest(
            plan.depthwise_plan,
            self.second,
            cache,
            Place(0, 1, across, width),
            self.out,
            self.store,
            line=lambda line: line % plan.ring * across,
        ).run((member, member + plan.together), (row, row + 1))
