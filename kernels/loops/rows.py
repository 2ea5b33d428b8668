"""Reductions with the chains around them: all stages for one row, or a few, before those of the next.

Axes that every stage has are looped over outside, and what lies between stages is an array of one turn of
these loops. Where the last axis is one of them (softmax over channels in NCHW), a turn has a few vectors of
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.elements import threads_for
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr
from kernels.loops.body import Axis, size_of
from kernels.loops.chains import Scope, Span, body_of, emit_chain, range_of, spans, spans_of
from kernels.loops.expressions import coefficient, dtype_of
from kernels.loops.inline import Formulas
from kernels.loops.nest import nest
from kernels.loops.program import Stage
from kernels.loops.sums import emit_sums
from kernels.loops.views import part, whole

TILE = 8
"""Vectors of a kept last axis that a turn has at most: as many accumulators."""
STACK_BYTES = 8 * 1024
"""Larger arrays between stages are taken from the heap."""

LEAST_TILE = 4
"""A shorter last axis is not worth vectors."""

Labels = dict[Buffer, dict[int, int]]
"""Of each stage: which of its axes are which of the common ones."""


def emit_rows(scope: Scope, kept: Sequence[Stage]) -> None:
    """All stages, in order: those that belong together row by row."""
    groups: list[list[Stage]] = []
    for group in _connected(scope, kept):
        # Chains alone gain nothing by rows: what lies between is small, or it were computed where it is read.
        together = any(stage.reduced for stage in group) and len(group) > 1 and _labels(scope, group)
        groups += [group] if together else [[stage] for stage in group]
    for group in groups:
        # What others than its own group read is there as a whole.
        stage = group[-1]
        if stage.buffer not in scope.views:
            scope.views[stage.buffer] = whole(_array(stage, stage.extents), stage.extents)
    for group in groups:
        if len(group) == 1 and not group[0].reduced:
            emit_chain(scope, group[0], spans_of(scope, group[0]))
        else:
            _emit_group(scope, group)


def _array(stage: Stage, extents: Sequence[int]) -> Buffer:
    dtype = str(stage.buffer.dtype)
    small = prod(extents) * size_of(dtype) <= STACK_BYTES
    return (tir.registers if small else tir.scratch)(prod(extents), dtype)


def _reads(scope: Scope, stage: Stage) -> list[tuple[Buffer, Sequence[Expr]]]:
    """The arrays that ``stage`` loads from, with the indices in terms of its own axes."""
    found: list[tuple[Buffer, Sequence[Expr]]] = []

    def place(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
        found.append((buffer, indices))
        return tirx.BufferLoad(buffer, list(indices))

    formulas = Formulas(scope.inlined, place)
    axes = (*stage.axes, *stage.reduced)
    for axis, extent in zip(axes, (*stage.extents, *stage.reduced_extents), strict=True):
        formulas.analyzer.bind(axis, range_of(axis, extent))
    formulas.of(stage, stage.axes, stage.reduced)
    return found


def _connected(scope: Scope, kept: Sequence[Stage]) -> list[list[Stage]]:
    """The stages that read one another, each group in order."""
    group_of = {stage.buffer: {stage.buffer} for stage in kept}
    for stage in kept:
        for source, _ in _reads(scope, stage):
            if source in group_of and group_of[source] is not group_of[stage.buffer]:
                group_of[stage.buffer] |= group_of[source]
                for member in group_of[source]:
                    group_of[member] = group_of[stage.buffer]
    groups: dict[int, list[Stage]] = {}
    for stage in kept:
        groups.setdefault(id(group_of[stage.buffer]), []).append(stage)
    return list(groups.values())


def _labels(scope: Scope, group: Sequence[Stage]) -> Labels:
    """Which axes are common to all stages of ``group``, by their place in the last one, if any are."""
    last = group[-1]
    common = {at for at, extent in enumerate(last.extents) if extent > 1}
    while common:
        labels, lost = _spread(scope, group, common)
        if not lost:
            return labels
        common -= lost
    return {}


def _spread(scope: Scope, group: Sequence[Stage], common: set[int]) -> tuple[Labels, set[int]]:
    """Carry labels from readers to what they read: the labels, and those that some stage does not have."""
    last, members = group[-1], {stage.buffer: stage for stage in group}
    labels: Labels = {last.buffer: {at: at for at in common}}
    lost: set[int] = set()
    for stage in reversed(group):
        if stage.buffer not in labels:  # nothing reads it: an output beside the last one
            if stage.extents != last.extents:
                return labels, common
            labels[stage.buffer] = {at: at for at in common}
        mine = {stage.axes[at]: (label, stage.extents[at]) for at, label in labels[stage.buffer].items()}
        for source, indices in _reads(scope, stage):
            if source not in members:
                continue
            found = {}
            for at, index in enumerate(indices):
                label, extent = mine.get(index, (None, 0)) if isinstance(index, tirx.Var) else (None, 0)
                theirs = members[source].axes[at]
                alike = members[source].extents[at] == extent
                if label is not None and alike and (theirs in scope.open) == (index in scope.open):
                    found[at] = label
            before = labels.setdefault(source, found)
            lost |= common - {label for at, label in found.items() if before.get(at) == label}
            if len(set(found.values())) < len(found):
                lost |= set(found.values())
    return labels, lost


def _emit_group(scope: Scope, group: Sequence[Stage]) -> None:
    last, labels = group[-1], _labels(scope, group)
    common = sorted(labels.get(last.buffer, {}).values())
    tile = _tile(scope, group, labels)
    rows = []
    for label in common:
        extent = last.extents[label]
        turns = ceil_div(extent, tile) if tile and label == common[-1] else extent
        row = tirx.Var(f"row{label}", dtype_of(last.axes[label]))
        rows.append(Axis(row, turns, scope.open.get(last.axes[label])))
    threads = threads_for(max(stage.elements for stage in group), scope.threads)

    def arrays() -> dict[Buffer, Buffer]:
        made = {}
        for stage in group[:-1]:
            if stage.buffer not in scope.views:
                made[stage.buffer] = _array(stage, _inner(stage, labels, common, tile))
        return made

    shared = arrays() if threads == 1 else None

    def turn(values: dict[Any, Expr]) -> None:
        inside = replace(scope, views=dict(scope.views), threads=1, ranges=dict(scope.ranges))
        taken: dict[int, Span | Expr] = {}
        for label, row in zip(common, rows, strict=True):
            value, extent = values[row.variable], last.extents[label]
            if tile and label == common[-1]:
                dtype = dtype_of(row.variable)
                first = value * tirx.const(tile, dtype)
                value = T.Bind(tirx.Min(first, tirx.const(extent - tile, dtype)) if extent % tile else first)
                inside.ranges[value] = (0, extent - tile + 1)
                taken[label] = Span(value, tile)
            else:
                inside.ranges[value] = (0, extent)
                taken[label] = value
        for buffer, data in (arrays() if shared is None else shared).items():
            stage = next(stage for stage in group if stage.buffer is buffer)
            mine = labels.get(buffer, {})
            starts = [
                taken[mine[at]].first if at in mine and isinstance(taken[mine[at]], Span) else None
                for at in range(len(stage.axes))
            ]
            inside.views[buffer] = part(data, _inner(stage, labels, common, tile), starts)
        for stage in group:
            mine = labels.get(stage.buffer, {})
            ranges = [taken.get(mine.get(at, -1), span) for at, span in enumerate(spans_of(scope, stage))]
            if stage.reduced:
                emit_sums(inside, stage, ranges, kept=bool(tile))
            else:
                emit_chain(inside, stage, ranges)

    nest(rows, threads, turn)


def _inner(stage: Stage, labels: Labels, common: Sequence[int], tile: int) -> list[int]:
    """How much of each axis of ``stage`` one turn has."""
    mine = labels.get(stage.buffer, {})
    return [
        extent if at not in mine else tile if tile and mine[at] == common[-1] else 1
        for at, extent in enumerate(stage.extents)
    ]


def _tile(scope: Scope, group: Sequence[Stage], labels: Labels) -> int:
    """How many elements of the last common axis a turn has, where arrays go on along that one; else 0."""
    last = group[-1]
    mine = labels.get(last.buffer, {})
    inner = max((at for at, extent in enumerate(last.extents) if extent > 1), default=None)
    if (
        inner is None
        or inner not in mine
        or last.extents[inner] < LEAST_TILE
        or last.axes[inner] in scope.open
    ):
        return 0
    # Where everything would lie, were it whole.
    views = dict(scope.views)
    for stage in group:
        flat = tirx.decl_buffer((prod(stage.extents),), str(stage.buffer.dtype))
        views.setdefault(stage.buffer, whole(flat, stage.extents))
    votes, size = 0, 1
    for stage in group:
        body = body_of(replace(scope, views=views), stage, spans((*stage.extents, *stage.reduced_extents)))
        size = max(size, body.bytes())
        if not stage.reduced:
            continue
        own = [at for at, label in labels[stage.buffer].items() if label == inner]
        shown = [at for at, extent in enumerate((*stage.extents, *stage.reduced_extents)) if extent > 1]
        along = {at: axis.variable for at, axis in zip(shown, body.axes, strict=True)}
        summed = [along[at] for at in shown if at >= len(stage.extents)]
        for place in body.places()[:-1]:
            votes += coefficient(place, along[own[0]]) == 1
            votes -= bool(summed) and coefficient(place, summed[-1]) == 1
    if votes <= 0:
        return 0
    lanes, extent = max(1, scope.target.vector_bits // 8 // size), last.extents[inner]
    if extent <= lanes * TILE:
        return extent
    turns = ceil_div(extent, lanes * TILE)
    return ceil_div(ceil_div(extent, turns), lanes) * lanes
