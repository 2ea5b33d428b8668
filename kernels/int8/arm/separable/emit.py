"""The loops of a quantized depthwise convolution beside a pointwise one.

The depthwise one reads rows that are padded, from a cache of as many as its filter reaches. They take turns
there, so that none is made twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from kernels.emit import code_shape, tir
from kernels.emit.shares import span
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index
from kernels.int8.arm.depthwise.emit import Nest
from kernels.int8.arm.depthwise.plan import Plan as DepthwisePlan
from kernels.int8.arm.gemm.emit import Nest as ProductNest
from kernels.int8.arm.operands import by_parts, multiplied
from kernels.int8.arm.separable.near import Near
from kernels.int8.arm.separable.plan import QSeparablePlan
from kernels.int8.chain.pair import Buffers
from kernels.int8.tir import QArguments


def emit(plan: QSeparablePlan, args: Buffers) -> None:
    """Every thread's share of the rows of the result."""
    order = _Spread if plan.spreads_first else _Expand
    total = plan.workload.second.out_h // (plan.knobs.lines if plan.spreads_first else 1)
    with code_shape.linked(), tir.loop(plan.threads, plan.threads) as part:
        loops = order(plan, args)
        steps: tuple[Index, Index] = (0, total)
        if plan.threads > 1:
            steps = span(total, part, plan.threads)
        with tir.loop(plan.workload.first.n) as image:
            loops.run(image, *steps)


class _Rows(Nest):
    """The depthwise convolution of rows that lie anywhere in a cache."""

    def __init__(self, plan: DepthwisePlan, args: QArguments, source: Buffer) -> None:
        super().__init__(plan, args)
        self.source = source
        self.lines: Sequence[Index] = ()

    def row(self, lines: Sequence[Index], window: Index, channel: Index) -> None:
        """A row of the result, whose first window is number ``window``, of the chunk from ``channel`` on."""
        self.lines = lines
        self._row(tir.index(0), window, channel, range(self.conv.out_w), None)

    def line(self, i: int) -> Index:
        """Where the row begins that tap row ``i`` reads."""
        return self.lines[i]


class _Loops(ABC):
    """What both orders have in common: the cache of rows."""

    def __init__(self, plan: QSeparablePlan, args: Buffers) -> None:
        self.plan, self.args, self.conv = plan, args, plan.depthwise
        self.cache = tir.scratch(plan.cached, self.conv.data_dtype)
        # What is left and right of the image stays as it is.
        self._blank(0, plan.cached)

    @abstractmethod
    def run(self, image: Index, begin: Index, end: Index) -> None:
        """Steps ``begin`` to ``end`` of an image's result."""

    @abstractmethod
    def _make(self, image: Index, line: Index, turn: Index, to: Index) -> None:
        """Row ``line`` of what the depthwise convolution reads, a run of channels, to ``to`` in the cache."""

    def _lines(self, image: Index, row: Index, begin: Index, turn: Index) -> list[Index]:
        """Make the rows that row ``row`` of the result is the first to need since row ``begin``; where those
        that it needs are in the cache."""
        plan, conv = self.plan, self.conv
        top = T.Bind(row * conv.stride[0] - conv.pad[0])
        end = T.Bind(top + plan.ring)
        known = tirx.if_then_else(row == begin, top, end - conv.stride[0])
        with T.serial(T.Bind(tir.most(top, known)), end) as line:
            to = self._place(line)
            padded = conv.pad[0] or conv.pad[2]
            tir.choose(
                tirx.all(line >= 0, line < conv.in_h) if padded else None,
                lambda: self._make(image, line, turn, T.Bind(to + conv.pad[1] * plan.knobs.chunk)),
                lambda: self._blank(to, plan.across),
            )
        return [self._place(top + i * conv.dilation[0]) for i in range(conv.kh)]

    def _place(self, line: Index) -> Expr:
        return T.Bind((line + self.conv.pad[0]) % self.plan.ring * self.plan.across)

    def _blank(self, start: Index, count: int) -> None:
        """Padding."""
        conv = self.conv

        def fill(at: Index, width: int) -> None:
            value = tir.const(conv.data_zero, conv.data_dtype, width)
            tir.store(self.cache, value, tir.vector(start + at, width))

        by_parts(count, fill)


class _Spread(_Loops):
    """The depthwise convolution first: a few rows of all channels, then the same of the result."""

    def __init__(self, plan: QSeparablePlan, args: Buffers) -> None:
        super().__init__(plan, args)
        self.between = tir.scratch(plan.between, self.conv.out_dtype)
        near = Near(plan, args)
        spread = QArguments(self.conv, args.data, out=self.between, **near.constants(0))
        self.constants = near.constants(1)
        self.rows = _Rows(plan.depthwise_plan, spread, self.cache)

    def run(self, image: Index, begin: Index, end: Index) -> None:
        """Strip after strip, ``lines`` rows a step."""
        plan, lines = self.plan, self.plan.knobs.lines
        conv, whole = plan.points_plan.conv, self.conv
        with tir.loop(plan.knobs.strips) as strip, T.serial(begin, end) as step:
            with tir.loop(lines) as number:
                row = T.Bind(step * lines + number)
                needed = self._lines(image, row, begin * lines, strip)
                self.rows.row(needed, T.Bind(number * conv.in_w), tir.index(0))
            window = (image * whole.out_h + step * lines) * whole.out_w + strip * plan.width
            out = tir.From(self.args.out, T.Bind(window * conv.out_c))
            points = QArguments(conv, self.between, out=out, **self.constants)
            ProductNest(plan.points_plan, points).run()

    def _make(self, image: Index, line: Index, turn: Index, to: Index) -> None:
        """A copy of the columns of strip ``turn``."""
        plan, conv, strips = self.plan, self.conv, self.plan.knobs.strips
        left, right = plan.edges
        first = T.Bind(turn * (plan.width * conv.stride[1]))
        start = T.Bind(((image * conv.in_h + line) * conv.in_w + first) * conv.in_c)
        inside = plan.depthwise_plan.columns - left - right
        self._copy(start, to, inside)
        if strips > 1:  # else what is left and right is padding for good
            before, behind = left * conv.in_c, inside * conv.in_c

            def edge(there: Expr, at: int, columns: int) -> None:
                size = columns * conv.in_c
                tir.choose(
                    there,
                    lambda: self._copy(start + at, to + at, columns),
                    lambda: self._blank(to + at, size),
                )

            if left:
                edge(turn > 0, -before, left)
            if right:
                edge(turn < strips - 1, behind, right)

    def _copy(self, start: Index, to: Index, columns: int) -> None:
        """``columns`` columns of the data from element ``start`` on."""

        def copy(at: Index, width: int) -> None:
            value = multiplied(self.args.data, start + at, self.conv.data_dtype, width)
            tir.store(self.cache, value, tir.vector(to + at, width))

        by_parts(columns * self.conv.in_c, copy)


class _Expand(_Loops):
    """The depthwise convolution second: of one run of channels after the other, all rows."""

    def __init__(self, plan: QSeparablePlan, args: Buffers) -> None:
        super().__init__(plan, args)
        self.near = Near(plan, args)
        self.constants: dict[str, Buffer] = {}

    def run(self, image: Index, begin: Index, end: Index) -> None:
        """A row a step."""
        plan, conv = self.plan, self.conv
        with tir.loop(plan.turns) as turn:
            channel = T.Bind(turn * plan.knobs.chunk)
            spread = QArguments(
                conv, self.cache, out=self.args.out, **self.near.constants(1, channel, channel)
            )
            rows = _Rows(plan.depthwise_plan, spread, self.cache)
            self.constants = self.near.constants(0, turn * plan.points_plan.padded_filters)
            with T.serial(begin, end) as row:
                needed = self._lines(image, row, begin, turn)
                window = T.Bind((image * conv.out_h + row) * conv.out_w)
                rows.row(needed, window, channel)

    def _make(self, image: Index, line: Index, turn: Index, to: Index) -> None:
        """The pointwise convolution of a row."""
        points, conv = self.plan.points_plan, self.plan.pointwise
        start = T.Bind((image * conv.in_h + line) * (conv.in_w * conv.in_c))
        filters = tir.From(self.constants["weights"], T.Bind(turn * points.packed_length))
        constants = {**self.constants, "weights": filters}
        data, out = tir.From(self.args.data, start), tir.From(self.cache, to)
        ProductNest(points, QArguments(points.conv, data, out=out, **constants)).run()
