"""The loop nest of a depthwise convolution whose vectors are neighbouring channels.

Nothing is padded: taps that meet the padding are left out, columns of them when the code is made, rows of
them when it runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from kernels.emit import tir
from kernels.emit.shares import span
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.float.depthwise.plan import GROUPS, ROWS, Block, Place, Plan
from kernels.float.depthwise.turned import turn
from kernels.float.plan import Arguments
from kernels.layout import PLAIN

LARGEST_UNROLL = 9
"""Taps of a filter that are unrolled whole; of larger filters only the rows are."""

Store = Callable[[Vector, Index], None]
"""Takes a vector of results, without the epilogue but with the bias, and its place."""
TapRow = Callable[[Index, Index], None]
"""Emits the products of one row of the filter, given where its windows' row and its taps begin."""


def whereabouts(plan: Plan, member: Index) -> tuple[Index, Index, Index]:
    """The image, the group of channels in it and the first of these, of a member."""
    channels, width = plan.conv.in_c, plan.width
    one = plan.conv.n == 1
    image, group = (0, member) if one else (T.Bind(member // plan.groups), T.Bind(member % plan.groups))
    # The last group overlaps the one before it where they do not divide the channels.
    channel = tir.least(group * width, channels - width) if channels % width else group * width
    return image, group, T.Bind(channel)


class Nest:
    """Emits the loops of some groups of channels over some rows.

    ``source`` is what is read, row by row as they lie, or from where ``line`` says that one is. Members are
    groups of channels, those of all images counted through.
    """

    def __init__(
        self,
        plan: Plan,
        args: Arguments,
        source: Buffer,
        data: Place,
        out: Place,
        store: Store,
        line: Callable[[Index], Index] | None = None,
    ) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        self.source, self.data, self.out, self.store = source, data, out, store
        self.line = line or (lambda row: row * data.row)

    def run(self, members: tuple[Index, Index], rows: tuple[Index, Index]) -> None:
        """Members and rows from the first up to the second of each pair."""
        first, last = members
        with tir.loop((last - first + self.plan.knobs.strip - 1) // self.plan.knobs.strip) as number:
            start = T.Bind(first + number * self.plan.knobs.strip)
            end = tir.least(start + self.plan.knobs.strip, last) if self.plan.knobs.strip > 1 else start + 1
            with T.serial(*rows) as row:
                self._row(row, start, end)

    def _row(self, row: Index, start: Index, end: Index) -> None:
        """One row of output of a strip of members."""
        conv, inner = self.conv, self.conv.inner_rows
        top = T.Bind(row * conv.stride[0] - conv.pad[0])
        share = conv.kw * self.plan.width

        def whole(products: TapRow) -> None:
            for tap_row in range(conv.kh):
                at = self.line(top + tap_row * conv.dilation[0])
                products(T.Bind(at), tir.index(tap_row * share))

        def part(products: TapRow) -> None:
            # The rows of the filter from the first that is not above the image to the last not below it.
            first = tir.most(0, -(top // conv.dilation[0]))
            behind = tir.least(conv.kh, (conv.in_h - top + conv.dilation[0] - 1) // conv.dilation[0])
            with T.serial(first, behind) as tap_row:
                at = self.line(top + tap_row * conv.dilation[0])
                products(T.Bind(at), T.Bind(tap_row * share))

        def blocks(tap_rows: Callable[[TapRow], None]) -> None:
            for block in self.plan.blocks:
                with tir.loop(block.count) as number, T.serial(start, end) as member:
                    self._block(block, T.Bind(number * block.windows), row, member, tap_rows)

        if not inner or self.conv.taps > LARGEST_UNROLL:
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
        self, block: Block, shift: Index, row: Index, member: Index, tap_rows: Callable[[TapRow], None]
    ) -> None:
        """``block.windows`` windows of one group of channels, from column ``block.left + shift``."""
        plan, conv, args, lanes = self.plan, self.conv, self.args, self.plan.lanes
        image, group, channel = whereabouts(plan, member)
        origin = T.Bind(
            image * self.data.image
            + channel * self.data.channel
            + shift * (conv.stride[1] * self.data.column)
        )
        weights = T.Bind(group * (conv.taps * plan.width))
        users: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for window in range(block.windows):
            for tap in plan.tap_columns(block.left + window):
                column = (block.left + window) * conv.stride[1] - conv.pad[1] + tap * conv.dilation[1]
                users[column].append((window, tap))
        vectors = range(plan.knobs.vectors)
        slots = {
            (vector, window): tir.vector((vector * block.windows + window) * lanes, lanes)
            for vector in vectors
            for window in range(block.windows)
        }
        registers = tir.registers(len(slots) * lanes)
        for (vector, _), slot in slots.items():
            start = tir.vector(channel + vector * lanes, lanes)
            tir.store(registers, tir.zeros(lanes) if args.bias is None else args.bias[start], slot)

        def products(line: Index, first_tap: Index) -> None:
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


def emit(plan: Plan, args: Arguments) -> None:
    """Every thread's share of the groups of channels, or of the rows."""
    conv, split = plan.conv, plan.knobs.split
    with tir.loop(plan.threads, plan.threads) as part:
        share: dict[str, tuple[Index, Index]] = {GROUPS: (0, conv.n * plan.groups), ROWS: (0, conv.out_h)}
        share[split] = span(share[split][1], part, plan.threads)
        if plan.layouts == PLAIN:
            _turned(plan, args, share[GROUPS], share[ROWS])
            return
        data = Place.of(plan.layouts.data, conv.in_c, conv.in_h, conv.in_w, plan.lanes)
        out = Place.of(plan.layouts.out, conv.in_c, conv.out_h, conv.out_w, plan.lanes)

        def store(value: Vector, at: Index) -> None:
            args.store_out(value, at, plan.lanes)

        Nest(plan, args, args.data, data, out, store).run(share[GROUPS], share[ROWS])


def _turned(plan: Plan, args: Arguments, members: tuple[Index, Index], rows: tuple[Index, Index]) -> None:
    """Member by member: its planes with channels innermost, the same convolution, and back."""
    conv, lanes = plan.conv, plan.lanes
    pixels, results = conv.in_h * conv.in_w, conv.windows
    source, target = tir.scratch(pixels * lanes), tir.scratch(results * lanes)
    data, out = (Place(0, 0, width * lanes, lanes) for width in (conv.in_w, conv.out_w))
    nest = Nest(
        plan, args, source, data, out, lambda value, at: tir.store(target, value, tir.vector(at, lanes))
    )
    with T.serial(*members) as member:
        image, _, first = whereabouts(plan, member)
        channel = T.Bind(image * conv.in_c + first)
        turn(
            args.data,
            channel * pixels,
            lanes,
            pixels,
            lanes,
            lambda value, at, width: tir.store(source, value, tir.vector(at, width)),
        )
        nest.run((member, member + 1), rows)
        place = channel * results
        turn(
            target,
            tir.index(0),
            results,
            lanes,
            lanes,
            lambda value, at, width: args.store_out(value, place + at, width),
        )
