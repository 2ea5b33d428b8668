"""The loop nest of a depthwise convolution in NCHW whose vectors are neighbouring columns.

Rows are read where they lie. A vector that would begin or end in the padding is made of one that does not, by
a shuffle; rows of the filter that meet the padding are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from kernels.emit import tir
from kernels.emit.shares import span
from kernels.emit.tvm import T
from kernels.emit.types import Index, Vector
from kernels.emit.vectors import shuffle
from kernels.float.depthwise.plan import GROUPS, ROWS
from kernels.float.depthwise_rows.plan import Plan
from kernels.float.plan import Arguments

LARGEST_UNROLL = 50
"""Taps of a filter that are unrolled whole; of larger filters only the rows are."""


class Nest:
    """Emits the loops over some rows of one channel's plane."""

    def __init__(self, plan: Plan, args: Arguments) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        self.zeros = tir.zeros(plan.lanes)

    def run(self, member: Index, rows: tuple[Index, Index]) -> None:
        """The rows from the first up to the second; members are channels, all images' counted through."""
        conv, inner = self.conv, self.conv.inner_rows
        channel = member if conv.n == 1 else T.Bind(member % conv.out_c)
        first, last = rows
        start = T.Bind(tir.least(tir.most(first, inner.start), last))
        blocks = T.Bind(tir.most(0, tir.least(last, inner.stop) - start) // self.plan.knobs.rows)
        end = T.Bind(start + blocks * self.plan.knobs.rows)
        with T.serial(first, start) as row:
            self._row(member, channel, row, False)
        with T.serial(0, blocks) as number:
            self._row(member, channel, T.Bind(start + number * self.plan.knobs.rows), True)
        with T.serial(end, last) as row:
            self._row(member, channel, row, False)

    def _row(self, member: Index, channel: Index, row: Index, inner: bool) -> None:
        """A block of rows that meet no padding, or one row that may."""
        for starts, count in self.plan.blocks:
            with tir.loop(count) as number:
                shift = T.Bind(number * (self.plan.knobs.vectors * self.plan.lanes))
                self._block(member, channel, row, starts, shift, inner)

    def _block(
        self, member: Index, channel: Index, row: Index, starts: Sequence[int], shift: Index, inner: bool
    ) -> None:
        plan, conv, args, lanes = self.plan, self.conv, self.args, self.plan.lanes
        rows = plan.knobs.rows if inner else 1
        cells = [(line, start) for line in range(rows) for start in starts]
        self.slots = {cell: tir.vector(number * lanes, lanes) for number, cell in enumerate(cells)}
        self.registers = tir.registers(len(cells) * lanes)
        bias = self.zeros if args.bias is None else T.Bind(tir.splat(args.bias[channel], lanes))
        for slot in self.slots.values():
            tir.store(self.registers, bias, slot)
        top = T.Bind(row * conv.stride[0] - conv.pad[0])
        # Shifts are zero where a vector meets padding: there the columns are known.
        plane = T.Bind(member * (conv.in_h * conv.in_w) + shift * conv.stride[1])
        weights = T.Bind(channel * conv.taps)
        if inner and conv.taps <= LARGEST_UNROLL:
            # Each line of the input meets all the rows of output that want it.
            users: dict[int, list[tuple[int, int]]] = defaultdict(list)
            for line in range(rows):
                for tap_row in range(conv.kh):
                    users[line * conv.stride[0] + tap_row * conv.dilation[0]].append((line, tap_row))
            for offset, pairs in sorted(users.items()):
                at = T.Bind(plane + (top + offset) * conv.in_w)
                self._line(at, starts, [(line, weights + tap * conv.kw) for line, tap in pairs])
        else:
            above = tir.most(0, -(top // conv.dilation[0]))
            behind = tir.least(conv.kh, (conv.in_h - top + conv.dilation[0] - 1) // conv.dilation[0])
            bounds = (0, conv.kh) if inner else (above, behind)
            with T.serial(*bounds) as tap:
                taps = T.Bind(weights + tap * conv.kw)
                for line in range(rows):
                    offset = line * conv.stride[0] + tap * conv.dilation[0]
                    at = T.Bind(plane + (top + offset) * conv.in_w)
                    self._line(at, starts, [(line, taps)])
        place = T.Bind((member * conv.out_h + row) * conv.out_w + shift)
        for (line, start), slot in self.slots.items():
            value = self._in_order(self.registers[slot])
            args.store_out(value, place + (line * conv.out_w + start), lanes)

    def _line(self, at: Index, starts: Sequence[int], users: Sequence[tuple[int, Index]]) -> None:
        """The products of one line of the input, with the filter's row of each row of output."""
        loaded: dict[int, Vector] = {}
        for tap in range(self.conv.kw):
            factors = {
                line: T.Bind(tir.splat(self.args.weights[taps + tap], self.plan.lanes))
                for line, taps in users
            }
            for start in starts:
                value = self._value(at, self.plan.source(start, tap), loaded)
                if value is None:
                    continue
                for line, _ in users:
                    slot = self.slots[line, start]
                    tir.store(self.registers, self.registers[slot] + value * factors[line], slot)

    def _value(self, at: Index, column: int, loaded: dict[int, Vector]) -> Vector | None:
        """What a vector of windows meets from ``column`` on, in ``_order``; None when it is all padding."""
        lanes, stride = self.plan.lanes, self.conv.stride[1]
        wanted = [column + lane * stride for lane in _order(lanes, stride)]
        if not any(0 <= place < self.conv.in_w for place in wanted):
            return None
        # Two that are one column apart are made of the same vectors.
        first = column - (column + self.conv.pad[1]) % stride
        first = max(0, min(first, self.conv.in_w - self.plan.span))
        if not all(
            first <= place < first + self.plan.span for place in wanted if 0 <= place < self.conv.in_w
        ):
            first = max(0, min(column, self.conv.in_w - self.plan.span))
        parts = []
        for start in range(first, first + self.plan.span, lanes):
            if start not in loaded:
                loaded[start] = T.Bind(self.args.data[tir.vector(at + start, lanes)])
            parts.append(loaded[start])
        inside = [0 <= place < self.conv.in_w for place in wanted]
        places = [place - first if here else 0 for place, here in zip(wanted, inside, strict=True)]
        value = parts[0] if places == list(range(lanes)) else shuffle(parts, places)
        if all(inside):
            return value
        return shuffle(
            [value, self.zeros], [lane + (0 if here else lanes) for lane, here in enumerate(inside)]
        )

    def _in_order(self, value: Vector) -> Vector:
        lanes = self.plan.lanes
        order = _order(lanes, self.conv.stride[1])
        if order == list(range(lanes)):
            return value
        return shuffle([T.Bind(value)], [order.index(lane) for lane in range(lanes)])


def emit(plan: Plan, args: Arguments) -> None:
    """Every thread's share of the channels, or of the rows of each."""
    conv, split = plan.conv, plan.knobs.split
    with tir.loop(plan.threads, plan.threads) as part:
        share: dict[str, tuple[Index, Index]] = {GROUPS: (0, conv.n * conv.out_c), ROWS: (0, conv.out_h)}
        share[split] = span(share[split][1], part, plan.threads)
        nest = Nest(plan, args)
        with T.serial(*share[GROUPS]) as member:
            nest.run(member, share[ROWS])


def _order(lanes: int, stride: int) -> list[int]:
    """Which window each lane computes: with a stride of 2, what one shuffle inside quarters can make."""
    if stride == 1 or lanes <= 4:
        return list(range(lanes))
    return [
        half * (lanes // 2) + quarter + element
        for quarter in range(0, lanes // 2, 2)
        for half in (0, 1)
        for element in (0, 1)
    ]
