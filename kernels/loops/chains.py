"""Chains of elementwise operators: one loop, in vectors, as wide as all its arrays go on side by side."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from tvm.sym.analyzer import Analyzer

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.elements import threads_for
from kernels.emit.tvm import T, tirx, tvm
from kernels.emit.types import Buffer, Expr
from kernels.loops.body import Axis, Body, made_body
from kernels.loops.expressions import COMPARISONS, coefficient, dtype_of, mutate, substitute, variables_of
from kernels.loops.inline import Formulas
from kernels.loops.nest import nest
from kernels.loops.program import Stage
from kernels.loops.turns import emit_turned, turned_loads
from kernels.loops.views import View
from kernels.target import Target

OPEN_BLOCK = 16
"""Elements of an open axis that are computed together where what is inside of them is not as long."""
MOST_PIECES = 32
"""Into how many pieces conditions may cut a loop nest."""


@dataclass(frozen=True)
class Span:
    """A part of an axis: ``extent`` from ``first`` on, or ``count``, at most that many, known at run time."""

    first: int | Expr
    extent: int
    count: Expr | None = None


@dataclass
class Scope:
    """What is known where a stage is computed: which stages are put into it, and where arrays lie."""

    inlined: Mapping[Buffer, Stage]
    views: dict[Buffer, View]
    target: Target
    threads: int = 1
    ranges: dict[Any, tuple[int, int]] = field(default_factory=dict)
    """The variables of loops around it, from the first to before the last value."""
    open: Mapping[Any, Expr] = field(default_factory=dict)
    """How long axes of stages are whose extents are but the largest that there may be."""

    def formulas(self) -> Formulas:
        """An empty set of formulas."""
        analyzer = Analyzer()
        for variable, (first, end) in self.ranges.items():
            analyzer.bind(variable, range_of(variable, end, first))

        def place(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
            view = self.views[buffer]
            return tirx.BufferLoad(view.data, [view.flat(indices, analyzer)])

        return Formulas(self.inlined, place, analyzer)

    def span(self, axis: Any, extent: int) -> Span:
        """All of an axis of a stage."""
        return Span(0, extent, self.open.get(axis))

    def lanes(self, body: Body) -> int:
        """How many elements a vector holds."""
        return max(1, self.target.vector_bits // 8 // body.bytes())


def range_of(variable: Any, end: int, first: int = 0) -> Any:
    """The values of ``variable`` as TVM has it."""
    dtype = dtype_of(variable)
    return tvm.ir.Range(tirx.const(first, dtype), tirx.const(end, dtype))


def spans(extents: Sequence[int]) -> list[Span]:
    """All of each axis."""
    return [Span(0, extent) for extent in extents]


def spans_of(scope: Scope, stage: Stage) -> list[Span]:
    """All of each axis of ``stage`` that is not reduced."""
    return [scope.span(axis, extent) for axis, extent in zip(stage.axes, stage.extents, strict=True)]


def body_of(scope: Scope, stage: Stage, ranges: Sequence[Span | Expr]) -> Body:
    """The body of ``stage`` for parts of its axes, the reduced ones last, or what an axis is fixed at."""
    formulas = scope.formulas()
    axes, indices = [], []
    for variable, wanted in zip((*stage.axes, *stage.reduced), ranges, strict=True):
        if not isinstance(wanted, Span):
            indices.append(wanted)
            continue
        dtype = dtype_of(variable)
        first = tirx.const(wanted.first, dtype) if isinstance(wanted.first, int) else wanted.first
        if wanted.extent == 1:
            indices.append(first)
            continue
        name = tirx.Var(variable.name, dtype)
        formulas.analyzer.bind(name, range_of(name, wanted.extent))
        axes.append(Axis(name, wanted.extent, wanted.count))
        indices.append(formulas.analyzer.simplify(first + name))
    own = indices[: len(stage.axes)]
    value = formulas.of(stage, own, indices[len(stage.axes) :])
    at = scope.views[stage.buffer].flat(own, formulas.analyzer)
    return made_body(axes, formulas.bindings, value, at)


def emit_chain(scope: Scope, stage: Stage, ranges: Sequence[Span | Expr]) -> None:
    """Loops that compute ``stage``, which combines nothing, for all of ``ranges``."""
    at = next(
        (at for at, each in enumerate(ranges) if isinstance(each, Span) and each.count is not None), None
    )
    if at is not None:
        _emit_open(scope, stage, list(ranges), at)
        return
    for piece in _pieces(body_of(scope, stage, ranges), ranges):
        body = body_of(scope, stage, piece)
        body.fuse()
        emit_body(scope, body, scope.views[stage.buffer].data)


def _emit_open(scope: Scope, stage: Stage, ranges: list[Span | Expr], at: int) -> None:
    """``emit_chain`` by blocks of the axis ``at``, which is open, and what is left of it one by one."""
    whole, dtype = ranges[at], dtype_of(stage.axes[at])
    assert isinstance(whole, Span)
    assert whole.count is not None
    count = T.Bind(whole.count.astype(dtype))
    inner = [each.extent for each in ranges[at + 1 :] if isinstance(each, Span)]
    size = tirx.const(1 if prod(inner) >= OPEN_BLOCK else OPEN_BLOCK, dtype)
    loop = T.parallel if threads_for(stage.elements, scope.threads) > 1 else T.serial

    def turn(first: Expr, extent: int) -> None:
        inside = replace(scope, threads=1, ranges={**scope.ranges, first: (0, whole.extent)})
        emit_chain(inside, stage, [*ranges[:at], Span(first, extent), *ranges[at + 1 :]])

    blocks = T.Bind(tirx.floordiv(count, size))
    with loop(tirx.const(0, dtype), blocks) as block:
        turn(T.Bind(block * size), int(size))
    if int(size) > 1:
        with T.serial(tirx.const(0, dtype), count - blocks * size) as rest:
            turn(T.Bind(blocks * size + rest), 1)


def _pieces(body: Body, ranges: Sequence[Span | Expr]) -> list[list[Any]]:
    """The ranges cut where conditions change, so that they are known within each piece."""
    free = [at for at, each in enumerate(ranges) if isinstance(each, Span) and each.extent > 1]
    cuts: dict[int, set[int]] = {at: set() for at in free}
    by_variable = {axis.variable: at for at, axis in zip(free, body.axes, strict=True)}

    def compare(node: Any, mutator: Any) -> Any:
        named = variables_of(node)
        if dtype_of(node.a).startswith("int") and len(named) == 1 and named < by_variable.keys():
            (variable,) = named
            at = by_variable[variable]
            cuts[at] |= _changes(node, variable, ranges[at].extent)
        return mutator.default_mutate(node)

    for each in body.expressions:
        mutate(each, *((kind, compare) for kind in COMPARISONS))
    if prod(len(each) + 1 for each in cuts.values()) > MOST_PIECES:
        return [list(ranges)]
    choices: list[list[Any]] = []
    for at, each in enumerate(ranges):
        if not cuts.get(at):
            choices.append([each])
            continue
        ends = itertools.pairwise([0, *sorted(cuts[at]), each.extent])
        choices.append([Span(each.first + begin, end - begin) for begin, end in ends])
    return [list(piece) for piece in itertools.product(*choices)]


def _changes(comparison: Expr, variable: Any, extent: int) -> set[int]:
    """Where between 0 and ``extent`` it changes whether ``comparison`` holds."""
    difference = comparison.a - comparison.b
    step = coefficient(difference, variable)
    if not step:
        return set()

    def at(expr: Expr, value: int) -> int | None:
        found = Analyzer().simplify(substitute(expr, {variable: tirx.const(value, dtype_of(variable))}))
        return int(found) if isinstance(found, tirx.IntImm) else None

    base = at(difference, 0)
    if base is None:
        return set()
    near = range(-base // step - 1, -base // step + 3)
    return {each for each in near if 0 < each < extent and at(comparison, each - 1) != at(comparison, each)}


def emit_body(scope: Scope, body: Body, out: Buffer) -> None:
    """Loops over the axes of ``body`` that store its values in ``out``; the last axis in vectors."""
    if not body.axes:
        body.emit(1, "int32", lambda _: {}, lambda _, __, value: tir.store(out, value, body.at))
        return
    *outer, inner = body.axes
    elements = prod(axis.extent for axis in body.axes)
    turned = turned_loads(body, scope.lanes(body))
    if turned is not None:
        emit_turned(body, turned, out, scope.lanes(body), threads_for(elements, scope.threads))
        return
    width = min(scope.lanes(body), 1 << (inner.extent.bit_length() - 1))
    turns = Axis(inner.variable, ceil_div(inner.extent, width))

    def leave(_: Expr, values: dict[Any, Expr], value: Expr) -> None:
        tir.store(out, value, substitute(body.at, values))

    def inside(values: dict[Any, Expr], first: Expr) -> None:
        if inner.extent % width:
            first = T.Bind(tirx.Min(first, tirx.const(inner.extent - width, dtype_of(first))))
        body.emit(width, dtype_of(first), lambda lane: {**values, inner.variable: first + lane}, leave)

    def turn(values: dict[Any, Expr]) -> None:
        first = values[inner.variable] * tirx.const(width, dtype_of(inner.variable))
        inside(values, first)

    nest([*outer, turns], threads_for(elements, scope.threads), turn)
