"""The ``main`` of a module whose inputs have an open size: it takes any length of a range, no other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from tvm import relax, tirx

from compiler.intake.shapes import Shapes, text_of
from kernels.open_size import Open
from kernels.target import CATALOGUE
from tuner.backend.joined import NOTHING, add_refusal
from tuner.backend.open_sizes import (
    OpenCalls,
    OpenModel,
    extent_of,
    lower_open,
    open_calls,
    read_open,
    typed,
)

ENTRY = "main_0"
"""The function that ``main`` calls."""


def open_module(model: OpenModel, shapes: Shapes, calls: OpenCalls, apart: bool) -> Any:
    """The Relax module of an open model and its ``calls``, which stay ``apart`` or become one.

    Its ``main`` fails with a ValueError that says the ``shapes`` it was built for where it is given others.
    """
    builder = relax.BlockBuilder(lower_open(model, calls, apart))
    program = model.samples[-1].program
    given = [
        [tirx.Var(f"n{place}_{axis}", "int64") for axis in range(len(shape))]
        for place, shape in enumerate(model.inputs)
    ]
    length = next(
        extent
        for extents, shape in zip(given, model.inputs, strict=True)
        for extent, size in zip(extents, shape, strict=True)
        if size == Open(1)
    )
    flat = [
        extent == extent_of(size, length)
        for extents, shape in zip(given, model.inputs, strict=True)
        for extent, size in zip(extents, shape, strict=True)
        if extent is not length
    ]
    within = [length >= model.range.first, length <= model.range.last]
    parameters = [
        relax.Var(port.name, relax.TensorType(extents, port.dtype))
        for port, extents in zip(program.inputs, given, strict=True)
    ]
    kinds = [
        typed(shape, port.dtype, length) for shape, port in zip(model.outputs, program.outputs, strict=True)
    ]
    result = kinds[0] if len(kinds) == 1 else relax.TupleType(kinds)
    refuse = add_refusal(builder, text_of(shapes))
    called = builder.get().get_global_var(ENTRY)
    with builder.function("main", parameters):
        refusal = relax.VarBinding(relax.Var("nothing", NOTHING), relax.Call(refuse, []))
        fits = reduce(tirx.And, [*within, *flat])
        # The call behind the refusal is never made; it has the type that a result has.
        chosen = relax.If(
            fits,
            _call(called, parameters, model, length, result, []),
            _call(called, parameters, model, length, result, [refusal]),
        )
        builder.emit_func_output(builder.emit(builder.normalize(chosen)))
    return builder.finalize()


def try_open(path: str | Path, shapes: Shapes) -> None:
    """Make the functions of a model of which ``shapes`` leave a size open, and compile none.

    Raises ModelError that names what cannot be left open.
    """
    target = CATALOGUE["x86-avx2"]
    model = read_open(path, shapes, target, 1)
    open_module(model, shapes, open_calls(model, model.samples[-1].plan, target, 1), apart=False)


def _call(
    called: Any,
    parameters: Sequence[Any],
    model: OpenModel,
    length: Any,
    result: Any,
    before: Sequence[Any],
) -> Any:
    """A branch that calls the function, with the parameters as what it takes."""
    bindings, arguments = [*before], []
    ports = model.samples[-1].program.inputs
    for parameter, port, shape in zip(parameters, ports, model.inputs, strict=True):
        argument = relax.Var(port.name, typed(shape, port.dtype, length))
        bindings.append(relax.MatchCast(argument, parameter, argument.ty))
        arguments.append(argument)
    outputs = relax.Var("outputs", result)
    bindings.append(relax.VarBinding(outputs, relax.Call(called, arguments)))
    return relax.SeqExpr([relax.BindingBlock(bindings)], outputs)
