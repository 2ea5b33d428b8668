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
    """The image, the group of channels in it and the first of these, of a member."""
    channels, width = plan.conv.in_c, plan.width
    one = plan.conv.n == 1
    image, group = (0, member) if one else (T.Bind(member // plan.groups), T.Bind(member % plan.groups))
    # The last group overlaps the one before it where they do not divide the channels.
    channel = tir.least(group * width, channels - width) if channels % width else group * width
    return image, group, T.Bind(channel)


class Nest:
    """Emits the loops of some groups of channels over some rows.

    ``source`` is what is read; ``store`` takes a vector of results, without the epilogue but with the bias,
    and its place. Members are groups of channels, those of all images counted through.
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
        share = conv.kw * self.plan.width

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
        """``block.windows`` windows of one group of channels, from column ``block.left + shift``."""
        plan, conv, args, lanes = self.plan, self.conv, self.args, self.plan.lanes
        image, group, channel = whereabouts(plan, member)
        origin = T.Bind(
            image * self.data.image
            + channel * self.data.channel
            + shift * (conv.stride[1] * self.data.column)
        )
        weights = T.Bind(group * (plan.taps * plan.width))
        users: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for window in range(block.windows):
            for tap in plan.tap_columns(block.left + window):
                column = (block.left + window) * conv.stride[1] - conv.pad[1] + tap * conv.dilation[1]
                users[column].append((window, tap))
        vectors = range(plan.vectors)
        slots = {
            (vector, window): tir.vector((vector * block.windows + window) * lanes, lanes)
            for vector in vectors
            for window in range(block.windows)
        }
        registers = tir.registers(len(slots) * lanes)
        for (vector, _), slot in slots.items():
            start = tir.vector(channel + vector * lanes, lanes)
            tir.store(registers, tir.zeros(lanes) if args.bias is None else args.bias[start], slot)

        def products(line: Any, first_tap: Any) -> None:
            at, taps_at = T.Bind(origin + line), T.Bind(weights + first_tap)
            for vector in vectors:
                taps = [
                    T.Bind(args.weights[tir.vector(taps_at + tap * plan.width + vector * lanes, lanes)])
                    for tap in range(conv.kw)
                ]
                for column, pairs in sorted(users.items()):
                    place = at + (column * self.data.column + vector * lanes)
                    value = T.Bind(self.source[tir.vector(place, lanes)])
                    for window, tap in pairs:
                        slot = slots[vector, window]
                        tir.store(registers, registers[slot] + value * taps[tap], slot)

        tap_rows(products)
        place = T.Bind(
            image * self.out.image + channel * self.out.channel + row * self.out.row + shift * self.out.column
        )
        for (vector, window), slot in slots.items():
            column = (block.left + window) * self.out.column
            self.store(registers[slot], place + (column + vector * lanes))
