"""Loops of ours for the functions that TVM makes of operators that no kernel family computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tvm_ffi import structural_equal

from kernels.emit.function import Function
from kernels.emit.tvm import ir, tirx
from kernels.emit.types import Buffer, PrimFunc
from kernels.loops.chains import Scope, body_of, spans
from kernels.loops.inline import kept_stages
from kernels.loops.program import NoLoops, Program, Stage, read
from kernels.loops.rows import emit_rows
from kernels.loops.views import whole
from kernels.target import Target

LOOPS_ATTRIBUTE = "tilefleet.loops"
"""What marks a function whose loops are ours."""
NO_LOOPS_ATTRIBUTE = "tilefleet.no_loops"
"""Why another one's loops are TVM's."""


def schedule(function: PrimFunc, target: Target, threads: int, name: str) -> PrimFunc:
    """``function`` in loops of ours, called ``name``; raises NoLoops where it has to stay as it is."""
    program = read(function)
    buffers = (*program.parameters, *(stage.buffer for stage in program.stages))
    if any(str(each.dtype) == "bfloat16" for each in buffers):
        raise NoLoops("it has bfloat16, of which LLVM's conversions of vectors are no code that runs")
    kept = kept_stages(program)
    inlined = {stage.buffer: stage for stage in program.stages if stage not in kept}
    if len(program.stages) == 1 and _is_reshape(program, kept, inlined, target):
        raise NoLoops("it is a reshape, of which Relax makes no loops")
    shapes = {f"p{at}": tuple(map(int, each.shape)) for at, each in enumerate(program.parameters)}
    dtypes = {f"p{at}": str(each.dtype) for at, each in enumerate(program.parameters)}
    made = Function(name, shapes, dtypes, len(program.outputs))
    with made as arrays:
        views = {
            each: whole(array, shape)
            for each, array, shape in zip(program.parameters, arrays, shapes.values(), strict=True)
        }
        emit_rows(Scope(inlined, views, target, threads), kept)
    return made.result()


def _is_reshape(
    program: Program, kept: Sequence[Stage], inlined: Mapping[Buffer, Stage], target: Target
) -> bool:
    """Whether all that it does is to copy its argument."""
    if len(program.parameters) != 2 or len(kept) != 1 or kept[0].reduced:
        return False
    views = {}
    for each in program.parameters:
        shape = [*map(int, each.shape)]
        views[each] = whole(tirx.decl_buffer((prod(shape),), str(each.dtype)), shape)
    body = body_of(Scope(inlined, views, target), kept[0], spans(kept[0].extents))
    return isinstance(body.value, ir.TensorLoad) and structural_equal(body.value.indices[0], body.at)
