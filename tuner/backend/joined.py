"""Several lowered models as one: a function a set of input shapes, and a ``main`` that picks by shape."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.script.ir_builder import tirx as T
from tvm_ffi import structural_equal, structural_hash

from compiler.intake.shapes import text_of
from compiler.ir.checks import Shapes
from kernels.emit.compile import KERNEL_ATTRIBUTE
from kernels.emit.function import Function
from tuner.backend.sequence import PART, SEQUENCE, sequenced

REFUSE = "refuse_shapes"
"""The function that fails, with the shapes there are in its message."""
SYMBOL = "global_symbol"
NOTHING = relax.TensorType((1,), "int32")
"""What a function returns that never returns."""


@dataclass(frozen=True)
class _Main:
    """A function of the joined module, the names and types of what it takes, and its result's type."""

    function: Any
    parameters: Sequence[str]
    types: Sequence[Any]
    result: Any

    @property
    def extents(self) -> list[int]:
        """Those of all inputs, one after another."""
        return [int(extent) for ty in self.types for extent in ty.shape]


def joined(modules: Iterable[tuple[Any, Shapes]]) -> Any:
    """One Relax module of several, whose ``main`` functions are of one model, for other input shapes.

    Each of these is a function of its own, ``main_0`` and so on; equal functions and equal constants are
    there once. ``main`` takes tensors of the shapes of any; for all others it fails with a ValueError that
    lists those there are. Each module comes with the shapes of its inputs, by name.
    """
    builder = relax.BlockBuilder()
    functions, constants = EqualFunctions(builder), _Constants()
    mains, known = [], []
    for at, (module, inputs) in enumerate(modules):
        renamed = {}
        for variable in sorted(module.functions, key=lambda variable: variable.name_hint):
            if isinstance(module[variable], tirx.PrimFunc):
                renamed[variable] = functions.get(variable.name_hint, module[variable])
        main = _Renaming(renamed, constants).visit_expr(module["main"]).with_attr(SYMBOL, f"main_{at}")
        parameters, types = [each.name for each in main.params], [each.ty for each in main.params]
        mains.append(_Main(builder.add_func(main, f"main_{at}"), parameters, types, main.ret_ty))
        known.append(text_of(inputs))
    _add_main(builder, mains, add_refusal(builder, "; ".join(known)))
    return builder.finalize()


def each_sequenced(module: Any, count: int) -> Any:
    """A joined module, of which each of the ``count`` functions that ``main`` chooses from makes its calls as
    ``sequenced`` has them: by their names, which are those in ``module``."""
    builder = relax.BlockBuilder(module)
    functions = {name: each for name, each in module.functions.items() if isinstance(each, tirx.PrimFunc)}
    for at in range(count):
        variable = module.get_global_var(f"main_{at}")
        alone = tvm.IRModule({**functions, tvm.ir.GlobalVar("main"): module[variable]})
        name = f"{SEQUENCE}_{at}"
        made = sequenced(alone, name)
        if made is alone:
            continue
        builder.add_func(made[name], name)
        builder.update_func(variable, made["main"].with_attr(SYMBOL, f"main_{at}"))
    return builder.finalize()


def _add_main(builder: Any, mains: Sequence[_Main], refuse: Any) -> None:
    """``main``, which finds the one to call by a binary search: some microseconds for any number."""
    types = mains[0].types
    extents = [
        [tirx.Var(f"n{place}_{axis}", "int64") for axis in range(len(ty.shape))]
        for place, ty in enumerate(types)
    ]
    parameters = [
        relax.Var(name, relax.TensorType(shape, ty.dtype))
        for name, shape, ty in zip(mains[0].parameters, extents, types, strict=True)
    ]
    flat = [extent for shape in extents for extent in shape]
    with builder.function("main", parameters):

        def search(among: Sequence[_Main]) -> Any:
            if len(among) == 1:
                equal = reduce(tirx.And, map(operator.eq, flat, among[0].extents), tirx.const(True, "bool"))
                refusal = relax.VarBinding(relax.Var("nothing", NOTHING), relax.Call(refuse, []))
                # The call behind the refusal is never made; it has the type that a result has.
                return relax.If(equal, _call(among[0], parameters), _call(among[0], parameters, [refusal]))
            half = len(among) // 2
            below = _below(flat, among[half].extents)
            return relax.If(below, search(among[:half]), search(among[half:]))

        chosen = search(sorted(mains, key=lambda main: main.extents))
        builder.emit_func_output(builder.emit(builder.normalize(chosen)))


def _below(extents: Sequence[Any], others: Sequence[int]) -> Any:
    """Whether ``extents`` come before ``others``, compared one after another."""
    result = tirx.const(False, "bool")
    for extent, other in reversed([*zip(extents, others, strict=True)]):
        result = tirx.Or(extent < other, tirx.And(extent == other, result))
    return result


def _call(main: _Main, parameters: Sequence[Any], before: Sequence[Any] = ()) -> Any:
    """A branch that calls ``main``, with the parameters as what it takes."""
    bindings, arguments = [*before], []
    for name, parameter, ty in zip(main.parameters, parameters, main.types, strict=True):
        argument = relax.Var(name, ty)
        bindings.append(relax.MatchCast(argument, parameter, ty))
        arguments.append(argument)
    outputs = relax.Var("outputs", main.result)
    bindings.append(relax.VarBinding(outputs, relax.Call(main.function, arguments)))
    return relax.SeqExpr([relax.BindingBlock(bindings)], outputs)


def add_refusal(builder: Any, known: str) -> Any:
    """A function that fails. It is one of Relax: TVM's plan of memory would have what one branch allocates
    reused in others that run without it, so that ``main`` must allocate nothing itself."""
    message = f"this module was not built for these input shapes, but for {known}"
    made = Function(REFUSE, {"nothing": (1,)}, {"nothing": "int32"})
    with made as (nothing,), T.Assert(tirx.const(False, "bool"), message, error_kind="ValueError"):
        T.buffer_store(nothing, tirx.const(0, "int32"), [0])
    with builder.function("refuse", []):
        function = builder.add_func(made.result().with_attr(KERNEL_ATTRIBUTE, True), REFUSE)
        builder.emit_func_output(builder.emit(relax.call_tir(function, [], NOTHING)))
    return builder.get().get_global_var("refuse")


class EqualFunctions:
    """PrimFuncs by what they compute, whatever they were called."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._made: dict[int, list[tuple[Any, Any]]] = {}
        self._names = {REFUSE}
        self._parts: dict[str, Any] = {}

    def get(self, name: str, function: Any) -> Any:
        """The function in the joined module that equals ``function``; a new one is called ``name`` or so."""
        nameless = function.without_attr(SYMBOL)
        if PART in (function.attrs or {}):
            # Others call it by its name, which says what it computes.
            if name not in self._parts:
                self._parts[name] = self._builder.add_func(function, name)
            return self._parts[name]
        alike = self._made.setdefault(structural_hash(nameless), [])
        for other, variable in alike:
            if structural_equal(other, nameless):
                return variable
        free, number = name, 0
        while free in self._names:
            number += 1
            free = f"{name}_{number}"
        self._names.add(free)
        variable = self._builder.add_func(nameless.with_attr(SYMBOL, free), free)
        alike.append((nameless, variable))
        return variable


class _Constants:
    """Constants by their content: those of later models need not stay in memory."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, tuple[int, ...], bytes], Any] = {}

    def get(self, constant: Any) -> Any:
        """The first constant that equals this one."""
        array = constant.value.numpy()
        key = (str(constant.value.dtype), array.shape, hashlib.sha256(array).digest())
        return self._made.setdefault(key, constant)


@mutator
class _Renaming(PyExprMutator):  # type: ignore[misc]  # TVM is Any to mypy
    """Calls by new names, and constants that may be those of another function."""

    def __init__(self, renamed: dict[Any, Any], constants: _Constants) -> None:
        super().__init__()
        self._renamed, self._constants = renamed, constants

    def visit_global_var_(self, op: Any) -> Any:
        return self._renamed.get(op, op)

    def visit_generic_const_(self, op: Any) -> Any:
        return self._constants.get(op)
