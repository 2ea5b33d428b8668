"""What a function that TVM made computes: a few stages, each the elements of one array by a formula."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm.s_tir.stmt import SBlockRealize

from kernels.emit.tvm import tirx
from kernels.emit.types import Buffer, Expr, PrimFunc, Statement
from kernels.emit.wraps import of_data
from kernels.loops.expressions import any_node, dtype_of, loads_of, substitute, variables_of

SPATIAL, REDUCED = 0, 2
COMBINERS = {
    tirx.Add: "sum",
    tirx.Mul: "product",
    tirx.Max: "max",
    tirx.Min: "min",
    tirx.And: "and",
    tirx.Or: "or",
}


class NoLoops(Exception):
    """Why no loops of ours compute a function."""


@dataclass(frozen=True, eq=False)
class Stage:
    """``buffer[axes] = value``, or the combination of ``value`` over all of the axes ``reduced``."""

    buffer: Buffer
    axes: tuple[Any, ...]
    extents: tuple[int, ...]
    reduced: tuple[Any, ...]
    reduced_extents: tuple[int, ...]
    value: Expr
    combiner: Any = None
    start: Expr = None

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product or a convolution: two factors, each the same along an axis."""
        if self.combiner is not tirx.Add or not isinstance(self.value, tirx.Mul):
            return False
        wide = {axis for axis, extent in zip(self.axes, self.extents, strict=True) if extent > 1}
        one, other = (variables_of(factor) & wide for factor in (self.value.a, self.value.b))
        return bool(one - other and other - one)

    @property
    def elements(self) -> int:
        """How many values are computed, before any are combined."""
        return prod(self.extents) * prod(self.reduced_extents)


@dataclass(frozen=True, eq=False)
class Program:
    """The stages in order; ``parameters`` are inputs, then outputs, as the function takes them."""

    parameters: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    stages: tuple[Stage, ...]


def read(function: PrimFunc) -> Program:
    """The program of a function as TVM's operators are lowered; raises NoLoops for any other."""
    body = function.body
    if not isinstance(body, SBlockRealize) or body.block.iter_vars:
        raise NoLoops("its body is no block")
    inner = body.block.body
    stages = tuple(map(_stage, inner.seq if isinstance(inner, tirx.SeqStmt) else [inner]))
    parameters = tuple(function.params)
    for parameter in parameters:
        if not tirx.is_buffer_var(parameter):
            raise NoLoops("it takes more than arrays")
        _shape(parameter)
    if any(stage.is_product for stage in stages):
        raise NoLoops("it is a product")
    written = {stage.buffer for stage in stages}
    if len(written) != len(stages):
        raise NoLoops("it writes an array twice")
    known = {parameter for parameter in parameters if parameter not in written}
    for stage in stages:
        loads = loads_of(stage.value) + ([] if stage.start is None else loads_of(stage.start))
        if any(load.source not in known for load in loads):
            raise NoLoops("it reads what is not there yet")
        known.add(stage.buffer)
    stages = tuple(replace(stage, value=of_data(stage.value)) for stage in stages)
    return Program(parameters, tuple(each for each in parameters if each in written), stages)


def _stage(statement: Statement) -> Stage:
    loops: dict[Any, int] = {}
    while isinstance(statement, tirx.For):
        if statement.kind != tirx.ForKind.SERIAL or int(statement.min) != 0 or statement.annotations:
            raise NoLoops("its loops are scheduled")
        loops[statement.loop_var] = _number(statement.extent)
        statement = statement.body
    if not isinstance(statement, SBlockRealize):
        raise NoLoops("it has statements without a block")
    block = statement.block
    if block.alloc_buffers or block.match_buffers or not _always(statement.predicate):
        raise NoLoops("a block has a predicate or arrays of its own")
    axes: dict[int, list[tuple[Any, int]]] = {SPATIAL: [], REDUCED: []}
    for axis, value in zip(block.iter_vars, statement.iter_values, strict=True):
        extent = _number(axis.dom.extent)
        fits = loops.pop(value, None) == extent if isinstance(value, tirx.Var) else extent == 1
        if not fits or int(axis.dom.min) != 0 or axis.iter_type not in axes:
            raise NoLoops("an axis is no loop")
        axes[axis.iter_type].append((axis.var, extent))
    if loops or not isinstance(block.body, tirx.BufferStore):
        raise NoLoops("a block is more than one store")
    spatial, reduced = axes[SPATIAL], axes[REDUCED]
    store, start, combiner, value = block.body, None, None, block.body.value
    if not store.indices and all(extent == 1 for _, extent in spatial):
        # TVM gives a block that writes one number an axis.
        value = substitute(value, {axis: tirx.const(0, dtype_of(axis)) for axis, _ in spatial})
        spatial = []
    indices = [variable for variable, _ in spatial]
    if len(store.indices) != len(indices) or not all(
        _same(index, variable) for index, variable in zip(store.indices, indices, strict=True)
    ):
        raise NoLoops("it does not write its elements in order")
    if _shape(store.buffer) != tuple(extent for _, extent in spatial):
        raise NoLoops("it writes a part of an array")
    if any_node(value, tirx.Let):
        raise NoLoops("it names values")
    if (block.init is None) != (not reduced):
        raise NoLoops("a sum has no start")
    if block.init is not None:
        combiner, start = type(value), block.init.value
        if combiner not in COMBINERS or not _is_own(value.a, store):
            raise NoLoops("it combines values in an unknown way")
        value = value.b
        if variables_of(start):
            raise NoLoops("a sum does not start with a number")
    return Stage(
        store.buffer,
        tuple(indices),
        tuple(extent for _, extent in spatial),
        tuple(variable for variable, _ in reduced),
        tuple(extent for _, extent in reduced),
        value,
        combiner,
        start,
    )


def _is_own(load: Expr, store: Statement) -> bool:
    loads = loads_of(load)
    return len(loads) == 1 and loads[0].same_as(load) and load.source.same_as(store.buffer)


def _same(index: Expr, variable: Any) -> bool:
    return isinstance(index, tirx.Var) and bool(index.same_as(variable))


def _always(predicate: Expr) -> bool:
    return isinstance(predicate, tirx.IntImm) and bool(predicate.value)


def _shape(buffer: Buffer) -> tuple[int, ...]:
    return tuple(_number(extent) for extent in buffer.shape)


def _number(extent: Expr) -> int:
    if not isinstance(extent, tirx.IntImm) or int(extent) < 1:
        raise NoLoops("an extent is not known, or zero")
    return int(extent)
