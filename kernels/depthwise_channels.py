"""The loop nest of a depthwise convolution whose vectors are neighbouring channels.

Nothing is padded: taps that meet the padding are left out, columns of them when the code is made, rows of
them when it runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import tir
from kernels.depthwise_plan import Block, ChannelPlan, Place, inner_rows

LARGEST_UNROLL = 9
"""Taps of a filter that are unrolled whole; of larger filters only the rows are."""

TapRow = Callable[[Any, Any], None]
"""Emits the products of one row of the filter, given where its windows' row and its taps begin."""


def whereabouts(plan: ChannelPlan, member: Any) -> tuple[Any, Any, Any]:
    """The image, the vector of channels in it and the first of these, of a member."""
    channels, lanes = plan.conv.in_c, plan.lanes
    one = plan.conv.n == 1
    image, vector = (0, member) if one else (T.Bind(member // plan.vectors), T.Bind(member % plan.vectors))
    # The last vector overlaps the one before it where they do not divide the channels.
    channel = tir.least(vector * lanes, channels - lanes) if channels % lanes else vector * lanes
    return image, vector, T.Bind(channel)


class Nest:
    """Emits the loops of some vectors of channels over some rows.

    ``source`` is what is read; ``store`` takes a vector of results, without the epilogue but with the bias,
    and its place. Members are vectors of channels, those of all images counted through.
    """

    def __init__(
        self, plan: ChannelPlan, args: tir.Arguments, source: Any, data: Place, out: Place, store: TapRow
    ) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        self.source, self.data, self.out, self.store = source, data, out, store

    def run(self, members: tuple[Any, Any], rows: tuple[Any, Any]) -> None:
        """Members and rows from the first up to the second of each pair."""
        first, last = members
        with tir.loop((last - first + self.plan.strip - 1) // self.plan.strip) as number:
            start = T.Bind(first + number * self.plan.strip)
            end = tir.least(start + self.plan.strip, last) if self.plan.strip > 1 else start + 1
            with T.serial(*rows) as row:
                self._row(row, start, end)

    def _row(self, row: Any, start: Any, end: Any) -> None:
        """One row of output of a strip of members."""
        conv, inner = self.conv, inner_rows(self.conv)
        top = T.Bind(row * conv.stride[0] - conv.pad[0])
        share = conv.kw * self.plan.lanes

        def whole(products: TapRow) -> None:
            for tap_row in range(conv.kh):
                at = (top + tap_row * conv.dilation[0]) * self.data.row
                products(T.Bind(at), tir.index(tap_row * share))

        def part(products: TapRow) -> None:
            # The rows of the filter from the first that is not above the image to the last not below it.
            first = tir.most(0, -(top // conv.dilation[0]))
            behind = tir.least(conv.kh, (conv.in_h - top + conv.dilation[0] - 1) // conv.dilation[0])
            with T.serial(first, behind) as tap_row:
                at = (top + tap_row * conv.dilation[0]) * self.data.row
                products(T.Bind(at), T.Bind(tap_row * share))

        def blocks(tap_rows: Callable[[TapRow], None]) -> None:
            for block in self.plan.blocks:
                with tir.loop(block.count) as number, T.serial(start, end) as member:
                    self._block(block, T.Bind(number * block.windows), row, member, tap_rows)

        if not inner or self.plan.taps > LARGEST_UNROLL:
            blocks(part)
        elif len(inner) == conv.out_h:
            blocks(whole)
        else:
            with T.If(tirx.And(row >= inner.start, row < inner.stop)):
                with T.Then():
                    blocks(whole)
                with T.Else():
                    blocks(part)

    def _block(
        self, block: Block, shift: Any, row: Any, member: Any, tap_rows: Callable[[TapRow], None]
    ) -> None:
        """``block.windows`` windows of one vector of channels, from column ``block.left + shift``."""
        plan, conv, args, lanes = self.plan, self.conv, self.args, self.plan.lanes
        image, vector, channel = whereabouts(plan, member)
        origin = T.Bind(
            image * self.data.image
            + channel * self.data.channel
            + shift * (conv.stride[1] * self.data.column)
        )
        weights = T.Bind(vector * (plan.taps * lanes))
        users: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for window in range(block.windows):
            for tap in plan.tap_columns(block.left + window):
                column = (block.left + window) * conv.stride[1] - conv.pad[1] + tap * conv.dilation[1]
                users[column].append((window, tap))
        slots = [tir.vector(window * lanes, lanes) for window in range(block.windows)]
        registers = tir.registers(block.windows * lanes)
        bias = tir.zeros(lanes) if args.bias is None else T.Bind(args.bias[tir.vector(channel, lanes)])
        for slot in slots:
            tir.store(registers, bias, slot)

        def products(line: Any, first_tap: Any) -> None:
            at, taps_at = T.Bind(origin + line), T.Bind(weights + first_tap)
            taps = [T.Bind(args.weights[tir.vector(taps_at + tap * lanes, lanes)]) for tap in range(conv.kw)]
            for column, pairs in sorted(users.items()):
                value = T.Bind(self.source[tir.vector(at + column * self.data.column, lanes)])
                for window, tap in pairs:
                    tir.store(registers, registers[slots[window]] + value * taps[tap], slots[window])

        tap_rows(products)
        place = T.Bind(
            image * self.out.image + channel * self.out.channel + row * self.out.row + shift * self.out.column
        )
        for window, slot in enumerate(slots):
            self.store(registers[slot], place + (block.left + window) * self.out.column)
