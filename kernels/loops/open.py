"""Loops for functions of which a size is left open: read off what TVM makes of them at several lengths.

A function is the same at all lengths where its formulas are, once their indices are simplified, but for
numbers that grow with the length. The loops are then those of the greatest length, but for how often the open
ones turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm.sym.analyzer import Analyzer
from tvm_ffi import structural_equal

from kernels.emit.function import Function
from kernels.emit.tvm import ir, tirx
from kernels.emit.types import Buffer, Expr, PrimFunc
from kernels.loops.chains import Scope, range_of
from kernels.loops.expressions import dtype_of, mutate, substitute
from kernels.loops.inline import kept_stages
from kernels.loops.program import NoLoops, Program, Stage, read
from kernels.loops.rows import emit_rows
from kernels.loops.views import whole
from kernels.open_size import Open, Size, expression, size_through
from kernels.target import Target

LENGTH = "length"
"""What the open size is called."""


@dataclass(frozen=True)
class OpenProgram:
    """A function at its greatest length, and what of it is open: axes of stages, and sizes of parameters.

    ``length`` is the variable that stands for the open size in formulas.
    """

    program: Program
    length: Any
    axes: dict[Any, Open]
    shapes: tuple[tuple[Size, ...], ...]


def opened(functions: Sequence[PrimFunc], lengths: Sequence[int]) -> OpenProgram:
    """One function that TVM made at several ``lengths``, the greatest last; NoLoops where it is not one."""
    programs = [read(function) for function in functions]
    last, length = programs[-1], tirx.Var(LENGTH, "int64")
    if len({(len(each.parameters), len(each.stages)) for each in programs}) > 1:
        raise NoLoops("it is another function at other sizes")
    shapes = tuple(
        _sizes([tuple(map(int, each.shape)) for each in parameters], lengths)
        for parameters in zip(*(each.parameters for each in programs), strict=True)
    )
    buffers = [_buffers(each, last) for each in programs]
    axes: dict[Any, Open] = {}
    stages = []
    for alike in zip(*(each.stages for each in programs), strict=True):
        of_all = [(*stage.axes, *stage.reduced) for stage in alike]
        extents = _sizes([(*stage.extents, *stage.reduced_extents) for stage in alike], lengths)
        axes |= {axis: size for axis, size in zip(of_all[-1], extents, strict=True) if isinstance(size, Open)}
        values = [
            _named(_simplified(stage), dict(zip(mine, of_all[-1], strict=True)), known)
            for stage, mine, known in zip(alike, of_all, buffers, strict=True)
        ]
        starts = [stage.start for stage in alike if stage.start is not None]
        if any(stage.combiner is not alike[-1].combiner for stage in alike) or not all(
            structural_equal(start, starts[-1]) for start in starts
        ):
            raise NoLoops("it combines values otherwise at other sizes")
        stages.append(replace(alike[-1], value=_through(values, lengths, length)))
    return OpenProgram(replace(last, stages=tuple(stages)), length, axes, shapes)


def schedule_open(
    function: OpenProgram, lie: Sequence[Sequence[Size]], target: Target, threads: int, name: str
) -> PrimFunc:
    """Loops for it, called ``name``; ``lie`` are the shapes that its parameters are given with, of as many
    elements as it takes them for."""
    program, length = function.program, tirx.Var(LENGTH, "int64")
    kept = kept_stages(program)
    # Formulas have the length that the function is given in place of its own.
    kept = [replace(each, value=substitute(each.value, {function.length: length})) for each in kept]
    inlined = {
        stage.buffer: replace(stage, value=substitute(stage.value, {function.length: length}))
        for stage in program.stages
        if stage.buffer not in {each.buffer for each in kept}
    }
    dtypes = {f"p{at}": str(each.dtype) for at, each in enumerate(program.parameters)}
    made = Function(name, shapes_of(lie, length), dtypes, len(program.outputs))
    with made as arrays:
        views = {
            each: whole(array, [expression(size, length) for size in shape])
            for each, array, shape in zip(program.parameters, arrays, function.shapes, strict=True)
        }
        ends = {axis: expression(size, length) for axis, size in function.axes.items()}
        emit_rows(Scope(inlined, views, target, threads, open=ends), kept)
    return made.result()


def shapes_of(lie: Sequence[Sequence[Size]], length: Any) -> dict[str, tuple[Any, ...]]:
    """Shapes for the parameters of a function; NoLoops unless one of them says what ``length`` is."""
    if not any(size == Open(1) for shape in lie for size in shape):
        raise NoLoops("no array that it takes has the open size as an axis")
    return {f"p{at}": tuple(expression(size, length) for size in shape) for at, shape in enumerate(lie)}


def _sizes(shapes: Sequence[tuple[int, ...]], lengths: Sequence[int]) -> tuple[Size, ...]:
    if len({len(shape) for shape in shapes}) > 1:
        raise NoLoops("it has other axes at other sizes")
    sizes = [size_through(extents, lengths) for extents in zip(*shapes, strict=True)]
    if any(size is None for size in sizes):
        raise NoLoops("an extent does not grow with the open size")
    return tuple(size for size in sizes if size is not None)


def _buffers(program: Program, last: Program) -> dict[Buffer, Buffer]:
    """Arrays of a program by those of ``last``, which stand at the same places."""
    named = dict(zip(program.parameters, last.parameters, strict=True))
    return named | {
        mine.buffer: theirs.buffer for mine, theirs in zip(program.stages, last.stages, strict=True)
    }


def _simplified(stage: Stage) -> Expr:
    """The value of a stage, with indices and conditions as plain as they are for its extents."""
    analyzer = Analyzer()
    axes = (*stage.axes, *stage.reduced)
    for axis, extent in zip(axes, (*stage.extents, *stage.reduced_extents), strict=True):
        analyzer.bind(axis, range_of(axis, extent))

    def load(node: Any, mutator: Any) -> Expr:
        return tirx.BufferLoad(
            node.source, [analyzer.simplify(mutator.mutate(each)) for each in node.indices]
        )

    return mutate(stage.value, (ir.TensorLoad, load))


def _named(value: Expr, axes: dict[Any, Any], buffers: dict[Buffer, Buffer]) -> Expr:
    """``value`` in terms of other axes and arrays."""

    def load(node: Any, mutator: Any) -> Expr:
        return tirx.BufferLoad(buffers[node.source], [mutator.mutate(each) for each in node.indices])

    return mutate(value, (ir.TensorLoad, load), (tirx.Var, lambda node, _: axes.get(node, node)))


def _through(values: Sequence[Expr], lengths: Sequence[int], length: Any) -> Expr:
    """The formula that has these ``values`` at these ``lengths``; NoLoops where there is none."""
    numbers = [_numbers(value) for value in values]
    if len(set(map(len, numbers))) > 1:
        raise NoLoops("its formula is another at other sizes")
    made: dict[int, Expr] = {}
    for at, alike in enumerate(zip(*numbers, strict=True)):
        if len({(type(each), each.value) for each in alike}) > 1:
            made[at] = _number_through(alike, lengths, length)
    skeletons = [
        _replaced(value, {at: tirx.const(0, dtype_of(numbers[0][at])) for at in made}) for value in values
    ]
    if not all(structural_equal(each, skeletons[-1]) for each in skeletons):
        raise NoLoops("its formula is another at other sizes")
    return _replaced(values[-1], made)


def _number_through(numbers: Sequence[Any], lengths: Sequence[int], length: Any) -> Expr:
    """A number that grows with the length, or is the inverse of one that does."""
    dtype, values = dtype_of(numbers[-1]), [each.value for each in numbers]
    if all(float(value).is_integer() for value in values):
        size = size_through([int(value) for value in values], lengths)
        if size is not None:
            return tirx.Cast(dtype, tirx.const(0, "int64") + expression(size, length))
    raise NoLoops("a number in its formula does not grow with the open size")


def _numbers(value: Expr) -> list[Any]:
    """All numbers in the order in which they stand."""
    found: list[Any] = []

    def note(node: Any, _: Any) -> Any:
        found.append(node)
        return node

    mutate(value, (tirx.IntImm, note), (tirx.FloatImm, note))
    return found


def _replaced(value: Expr, by: dict[int, Expr]) -> Expr:
    """``value`` with the numbers at some places replaced."""
    places = iter(range(len(_numbers(value))))

    def put(node: Any, _: Any) -> Any:
        return by.get(next(places), node)

    return mutate(value, (tirx.IntImm, put), (tirx.FloatImm, put)) if by else value
