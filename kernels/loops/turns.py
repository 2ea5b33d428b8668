"""Transposes within chains: what lies the other way round is read in squares and turned in registers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from tvm_ffi import StructuralKey

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.tvm import T, ir, tirx
from kernels.emit.types import Buffer, Expr
from kernels.emit.vectors import transpose
from kernels.loops.body import Axis, Body, size_of
from kernels.loops.expressions import coefficient, dtype_of, has_vectors, is_lazy, mutate, substitute
from kernels.loops.nest import nest

LEAST_LANES = 4
"""Narrower vectors have no transpose."""
LEAST_BYTES = 4
"""Elements smaller than these are not turned."""
LINE_BYTES, MOST_SIDE = 64, 2
"""A turn goes on for a cache line both ways, but is of no more squares than this a side."""


@dataclass(frozen=True)
class Turned:
    """``loads`` go on along the axis ``along``, not along the one of the vectors; each has a name."""

    along: Axis
    loads: dict[Any, tuple[Any, Any]]


def turned_loads(body: Body, lanes: int) -> Turned | None:
    """The loads of ``body`` that should be turned, if there are any."""
    inner = body.axes[-1]
    if lanes < LEAST_LANES or inner.extent < lanes or coefficient(body.at, inner.variable) != 1:
        return None
    if any(is_lazy(each) or not has_vectors(each) for each in body.expressions):
        return None
    found: dict[Any, tuple[Any, Any]] = {}
    along: Axis | None = None

    def look(load: Any, mutator: Any) -> Any:
        nonlocal along
        if size_of(dtype_of(load)) < LEAST_BYTES or size_of(dtype_of(load)) < body.bytes():
            return load
        if coefficient(load.indices[0], inner.variable) in (None, 0, 1):
            return load
        axes = [axis for axis in body.axes[:-1] if coefficient(load.indices[0], axis.variable) == 1]
        if not axes or axes[0].extent < lanes or along not in (None, axes[0]):
            return load
        along = axes[0]
        found.setdefault(_key(load), (load, tirx.Var("turned", dtype_of(load))))
        return load

    for each in body.expressions:
        mutate(each, (ir.TensorLoad, look))
    return None if along is None else Turned(along, found)


def emit_turned(body: Body, turned: Turned, out: Buffer, lanes: int, threads: int) -> None:
    """Loops over squares that store the values of ``body`` in ``out``."""
    inner, along = body.axes[-1], turned.along
    line = max(1, min(MOST_SIDE, LINE_BYTES // (body.bytes() * lanes)))
    tall, wide = (lanes * min(line, axis.extent // lanes) for axis in (along, inner))
    named = _named(body, turned)
    others = [axis for axis in body.axes[:-1] if axis is not along]
    tiles = [
        Axis(axis.variable, ceil_div(axis.extent, side)) for axis, side in ((along, tall), (inner, wide))
    ]

    def turn(values: dict[Any, Expr]) -> None:
        firsts = []
        for axis, side in ((along, tall), (inner, wide)):
            dtype = dtype_of(axis.variable)
            first = values[axis.variable] * tirx.const(side, dtype)
            rest = tirx.const(axis.extent - side, dtype)
            firsts.append(T.Bind(tirx.Min(first, rest) if axis.extent % side else first))
        for down, right in product(range(0, tall, lanes), range(0, wide, lanes)):
            _square(named, turned, inner, out, lanes, values, firsts[0] + down, firsts[1] + right)

    nest([*others, *tiles], threads, turn)


def _square(
    body: Body,
    turned: Turned,
    inner: Axis,
    out: Buffer,
    lanes: int,
    values: dict[Any, Expr],
    row: Expr,
    column: Expr,
) -> None:
    """As many vectors as they have lanes, from ``row`` of the one axis and ``column`` of the other on."""
    squares = {}
    for load, name in turned.loads.values():
        read = []
        for lane in range(lanes):
            at = {**values, turned.along.variable: row, inner.variable: column + lane}
            first = substitute(load.indices[0], at)
            run = tirx.Ramp(first, tirx.const(1, dtype_of(first)), lanes)
            read.append(T.Bind(tirx.BufferLoad(load.source, [run])))
        squares[name] = tir.registers(lanes * lanes, dtype_of(load))
        for place, vector in enumerate(transpose(read)):
            tir.store(squares[name], vector, tir.vector(place * lanes, lanes))
    for place in range(lanes):
        mine = {**values, turned.along.variable: row + place}

        def where(lane: Expr, place: int = place, mine: dict[Any, Expr] = mine) -> dict[Any, Expr]:
            loaded = {
                name: tirx.BufferLoad(square, [lane + place * lanes]) for name, square in squares.items()
            }
            return {**mine, **loaded, inner.variable: column + lane}

        def leave(_: Expr, known: dict[Any, Expr], value: Expr) -> None:
            tir.store(out, value, substitute(body.at, known))

        body.emit(lanes, dtype_of(column), where, leave)


def _named(body: Body, turned: Turned) -> Body:
    """``body`` with the names of its turned loads in their place."""

    def name(load: Any, _: Any) -> Any:
        found = turned.loads.get(_key(load))
        return load if found is None else found[1]

    bindings = [(each, mutate(value, (ir.TensorLoad, name))) for each, value in body.bindings]
    return Body(body.axes, bindings, mutate(body.value, (ir.TensorLoad, name)), body.at)


def _key(load: Any) -> Any:
    """The same for loads that are written alike."""
    return load.source, StructuralKey(load.indices)  # type: ignore[call-arg]  # made of its argument
