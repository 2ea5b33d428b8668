"""The loop nest of a grouped convolution: one group's padded planes, then blocks of its output."""

from __future__ import annotations

import itertools
from collections import defaultdict

from kernels.arithmetic import ceil_div, even
from kernels.emit import tir
from kernels.emit.padding import emit_copy
from kernels.emit.shares import span
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import split
from kernels.float.grouped.plan import FILTERS, GROUPS, Plan
from kernels.float.plan import Arguments

LONGEST_UNROLL = 50
"""Taps of a filter that are unrolled whole; of larger filters only the rows are."""


def emit(plan: Plan, args: Arguments) -> None:
    """A loop over groups: copy its planes if need be, then every register block of its output."""
    Nest(plan, args).run()


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: Arguments) -> None:
        self.plan, self.group, self.args, self.threads = plan, plan.group, args, plan.threads
        self.layout = plan.layout
        self.pitch = ceil_div(plan.columns, plan.lanes) * plan.lanes

    def run(self) -> None:
        """All groups of all images, or of each a part of the filters, for every thread."""
        plan, threads = self.plan, self.threads
        share = {GROUPS: plan.conv.n * plan.conv.groups, FILTERS: plan.filter_blocks}
        with tir.loop(threads, threads) as thread:
            self.source = tir.scratch(self.layout.elements) if self.layout.copied else self.args.data
            self.flat_out: Buffer = tir.scratch(plan.knobs.filters * self.pitch) if plan.knobs.flat else None
            part = span(share[plan.split], thread, threads)
            members = part if plan.split == GROUPS else (0, share[GROUPS])
            with T.serial(*members) as member:
                if self.layout.copied:
                    emit_copy(self.layout, plan.lanes, self.args.data, self.source, member)
                self._member(member, part if plan.split == FILTERS else (0, plan.filter_blocks))

    def _member(self, member: Index, part: tuple[Index, Index]) -> None:
        """The blocks of filters ``part[0]`` up to ``part[1]`` of one group of one image."""
        first = passed = 0
        for filters, blocks in even(self.group.out_c, self.plan.knobs.filters):
            bounds = [tir.least(tir.most(end - passed, 0), blocks) for end in part]
            with T.serial(*bounds) as block:
                self._filters(filters, member, T.Bind(first + block * filters))
            first += filters * blocks
            passed += blocks

    def _filters(self, filters: int, member: Index, first: Index) -> None:
        top = 0
        for rows, blocks in even(self.plan.lines, self.plan.knobs.rows):
            with tir.loop(blocks) as block:
                self._row(filters, rows, member, first, T.Bind(top + block * rows))
            top += rows * blocks
        if self.plan.knobs.flat:
            self._unflatten(filters, member, first)

    def _row(self, filters: int, rows: int, member: Index, first: Index, top: Index) -> None:
        """All strips of one block of rows."""
        plan, lanes = self.plan, self.plan.lanes
        # The last vector of a row overlaps the one before it, so that it ends with the row.
        overlap = 0 if plan.knobs.flat else min(self.pitch - plan.columns, self.pitch - lanes)
        left = 0
        for vectors, strips in plan.strips:
            last = left + vectors * lanes * strips == self.pitch
            starts = [vector * lanes for vector in range(vectors)]
            alike = strips - 1 if last and overlap else strips
            with tir.loop(alike) as strip:
                self._micro(
                    filters, rows, starts, member, first, top, T.Bind(left + strip * (vectors * lanes))
                )
            left += vectors * lanes * strips
            if last and overlap:
                starts[-1] -= overlap
                self._micro(filters, rows, starts, member, first, top, tir.index(left - vectors * lanes))

    def _micro(
        self, filters: int, rows: int, starts: list[int], member: Index, first: Index, top: Index, left: Index
    ) -> None:
        """``filters`` x ``rows`` x ``starts`` vectors of the output, from (``first``, ``top``, ``left``)."""
        plan, group, args, lanes = self.plan, self.group, self.args, self.plan.lanes
        cells = [(f, row, at) for f in range(filters) for row in range(rows) for at in range(len(starts))]
        slots = {cell: tir.vector(number * lanes, lanes) for number, cell in enumerate(cells)}
        registers = tir.registers(len(cells) * lanes)
        channel = T.Bind(member % plan.conv.groups * group.out_c + first)
        for (f, _, _), slot in slots.items():
            bias = tir.zeros(lanes) if args.bias is None else tir.splat(args.bias[channel + f], lanes)
            tir.store(registers, bias, slot)
        layout = self.layout
        origin = tir.index(0) if layout.copied else member * (group.in_c * layout.channel_pitch)
        origin = T.Bind(origin + top * layout.row_pitch + left)
        taps = T.Bind(channel * (group.in_c * plan.conv.taps))
        with tir.loop(group.in_c) as depth:
            base = T.Bind(origin + depth * layout.channel_pitch)
            weights = T.Bind(taps + depth * (plan.conv.taps * filters))
            if plan.conv.taps <= LONGEST_UNROLL:
                self._products(range(group.kh), rows, starts, slots, registers, base, weights, filters)
            else:
                with tir.loop(group.kh) as tap_row:
                    line = T.Bind(base + tap_row * layout.tap_pitch)
                    share = T.Bind(weights + tap_row * (group.kw * filters))
                    self._products(range(1), rows, starts, slots, registers, line, share, filters)
        for (f, row, at), slot in slots.items():
            if self.flat_out is not None:
                place = left + f * self.pitch + starts[at]
                tir.store(self.flat_out, registers[slot], tir.vector(place, lanes))
                continue
            plane = (member * group.out_c + first + f) * (group.out_h * group.out_w)
            place = plane + (top + row) * group.out_w + left + starts[at]
            for offset, width, part in split(registers[slot], min(lanes, group.out_w), lanes):
                args.store_out(part, place + offset, width)

    def _products(
        self,
        tap_rows: range,
        rows: int,
        starts: list[int],
        slots: dict[tuple[int, int, int], Vector],
        registers: Buffer,
        base: Index,
        weights: Index,
        filters: int,
    ) -> None:
        """All products of one input channel with some rows of the filters."""
        layout, lanes, width = self.layout, self.plan.lanes, self.group.kw

        def value(row: int, tap_row: int, tap: int, at: int) -> Vector:
            offset = row * layout.row_pitch + tap_row * layout.tap_pitch + layout.tap(tap) + starts[at]
            return T.Bind(self.source[tir.vector(base + offset, lanes)])

        def weight(f: int, tap_row: int, tap: int) -> Vector:
            return tir.splat(self.args.weights[weights + (tap_row * width + tap) * filters + f], lanes)

        def add(cell: tuple[int, int, int], one: Vector, other: Vector) -> None:
            tir.store(registers, registers[slots[cell]] + one * other, slots[cell])

        if filters > 1:
            # An outer product a tap. The shorter side stays in registers while the longer streams by.
            places = list(itertools.product(range(rows), range(len(starts))))
            for tap_row, tap in itertools.product(tap_rows, range(width)):
                if len(places) <= filters:
                    values = {place: value(place[0], tap_row, tap, place[1]) for place in places}
                    for f in range(filters):
                        factor = weight(f, tap_row, tap)
                        for place in places:
                            add((f, *place), values[place], factor)
                else:
                    factors = [T.Bind(weight(f, tap_row, tap)) for f in range(filters)]
                    for row, at in places:
                        loaded = value(row, tap_row, tap, at)
                        for f, factor in enumerate(factors):
                            add((f, row, at), loaded, factor)
            return
        # Each value meets all the rows of output, and so all the rows of the filter, that want it.
        users: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for row, tap_row in itertools.product(range(rows), tap_rows):
            users[row * layout.row_pitch + tap_row * layout.tap_pitch].append((row, tap_row))
        for _, pairs in sorted(users.items()):
            for tap, at in itertools.product(range(width), range(len(starts))):
                loaded = value(*pairs[0], tap, at)
                for row, tap_row in pairs:
                    add((0, row, at), loaded, weight(0, tap_row, tap))

    def _unflatten(self, filters: int, member: Index, first: Index) -> None:
        """Copy the rows of the flat form to the output, with the epilogue."""
        group, lanes, flat_out = self.group, self.plan.lanes, self.flat_out
        ends = [(start, lanes) for start in range(0, group.out_w - lanes + 1, lanes)]
        if group.out_w % lanes:
            ends.append((max(0, group.out_w - lanes), min(lanes, group.out_w)))
        with tir.loop(filters) as f, tir.loop(group.out_h) as row:
            source = T.Bind(f * self.pitch + row * self.layout.row_pitch)
            target = T.Bind(((member * group.out_c + first + f) * group.out_h + row) * group.out_w)
            for start, count in ends:
                value = flat_out[tir.vector(source + start, lanes)]
                for offset, width, part in split(value, count, lanes):
                    self.args.store_out(part, target + (start + offset), width)
