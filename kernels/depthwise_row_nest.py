"""The loop nest of a depthwise convolution in NCHW whose vectors are neighbouring columns.

Rows are read where they lie. A vector that would begin or end in the padding is made of one that does not, by
a shuffle; rows of the filter that meet the padding are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from kernels import tir
from kernels.depthwise_plan import inner_rows
from kernels.vectors import shuffle
from kernels.workload import Conv2d

LARGEST_UNROLL = 50
"""Taps of a filter that are unrolled whole; of larger filters only the rows are."""


@dataclass(frozen=True)
class RowPlan:
    """``rows`` rows by ``vectors`` vectors of ``lanes`` columns are a register block.

    ``split`` says what the threads share out.
    """

    conv: Conv2d
    lanes: int
    rows: int
    vectors: int
    split: str

    @property
    def taps(self) -> int:
        """Taps of a filter."""
        return self.conv.kh * self.conv.kw

    @property
    def span(self) -> int:
        """Columns of the input between the first and last window of a vector, and those they skip."""
        return self.lanes * self.conv.stride[1]

    @property
    def blocks(self) -> list[tuple[tuple[int, ...], int]]:
        """The first columns of a block's vectors, and how many blocks follow each other like that.

        Together they cover a row; its last vector ends with the row and may overlap the one before it.
        """
        columns, lanes = self.conv.out_w, self.lanes
        starts = [min(at, columns - lanes) for at in range(0, columns, lanes)]
        blocks: list[tuple[tuple[int, ...], int]] = []
        for first in range(0, len(starts), self.vectors):
            block = tuple(starts[first : first + self.vectors])
            if blocks:
                last, count = blocks[-1]
                step = count * self.vectors * lanes
                if block == tuple(at + step for at in last) and self._inner(last) and self._inner(block):
                    blocks[-1] = (last, count + 1)
                    continue
            blocks.append((block, 1))
        return blocks

    def source(self, window: int, tap: int) -> int:
        """The column of the input that a window in a column meets with a tap of a row."""
        return window * self.conv.stride[1] - self.conv.pad[1] + tap * self.conv.dilation[1]

    def _inner(self, starts: Sequence[int]) -> bool:
        """Whether all vectors of the input lie inside the row."""
        last = self.source(starts[-1], self.conv.kw - 1) + self.span
        return self.source(starts[0], 0) >= 0 and last <= self.conv.in_w


class RowNest:
    """Emits the loops over some rows of one channel's plane."""

    def __init__(self, plan: RowPlan, args: tir.Arguments) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        self.zeros = tir.zeros(plan.lanes)

    def run(self, member: Any, rows: tuple[Any, Any]) -> None:
        """The rows from the first up to the second; members are channels, all images' counted through."""
        conv, inner = self.conv, inner_rows(self.conv)
        channel = member if conv.n == 1 else T.Bind(member % conv.out_c)
        first, last = rows
        start = T.Bind(tir.least(tir.most(first, inner.start), last))
        blocks = T.Bind(tir.most(0, tir.least(last, inner.stop) - start) // self.plan.rows)
        end = T.Bind(start + blocks * self.plan.rows)
        with T.serial(first, start) as row:
            self._row(member, channel, row, False)
        with T.serial(0, blocks) as number:
            self._row(member, channel, T.Bind(start + number * self.plan.rows), True)
        with T.serial(end, last) as row:
            self._row(member, channel, row, False)

    def _row(self, member: Any, channel: Any, row: Any, inner: bool) -> None:
        """A block of rows that meet no padding, or one row that may."""
        for starts, count in self.plan.blocks:
            with tir.loop(count) as number:
                shift = T.Bind(number * (self.plan.vectors * self.plan.lanes))
                self._block(member, channel, row, starts, shift, inner)

    def _block(
        self, member: Any, channel: Any, row: Any, starts: Sequence[int], shift: Any, inner: bool
    ) -> None:
        plan, conv, args, lanes = self.plan, self.conv, self.args, self.plan.lanes
        rows = plan.rows if inner else 1
        cells = [(line, start) for line in range(rows) for start in starts]
        self.slots = {cell: tir.vector(number * lanes, lanes) for number, cell in enumerate(cells)}
        self.registers = tir.registers(len(cells) * lanes)
        bias = self.zeros if args.bias is None else T.Bind(tir.splat(args.bias[channel], lanes))
        for slot in self.slots.values():
            tir.store(self.registers, bias, slot)
        top = T.Bind(row * conv.stride[0] - conv.pad[0])
        # Shifts are zero where a vector meets padding: there the columns are known.
        plane = T.Bind(member * (conv.in_h * conv.in_w) + shift * conv.stride[1])
        weights = T.Bind(channel * plan.taps)
        if inner and plan.taps <= LARGEST_UNROLL:
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

    def _line(self, at: Any, starts: Sequence[int], users: Sequence[tuple[int, Any]]) -> None:
        """The products of one line of the input, with the filter's row of each row of output."""
        loaded: dict[int, Any] = {}
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

    def _value(self, at: Any, column: int, loaded: dict[int, Any]) -> Any:
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

    def _in_order(self, value: Any) -> Any:
        lanes = self.plan.lanes
        order = _order(lanes, self.conv.stride[1])
        if order == list(range(lanes)):
            return value
        return shuffle([T.Bind(value)], [order.index(lane) for lane in range(lanes)])


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
