"""Replaces the calls of libm in the functions of a module, maxima and minima by such that keep a NaN, and
arithmetic of integers that wraps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm.ir.op import Op, register_op_attr
from tvm_ffi import structural

from kernels.emit.tvm import tirx, tvm
from kernels.emit.types import Expr, Module, PrimFunc
from kernels.emit.vector_math.called import Has, define, linked
from kernels.emit.vector_math.code import DOUBLE, SINGLE, Code, Value
from kernels.emit.vector_math.error_function import erf
from kernels.emit.vector_math.exponential import exp, exp2, exp10, sigmoid, tanh
from kernels.emit.vector_math.hyperbolic import acosh, asinh, atanh, cosh, sinh
from kernels.emit.vector_math.logarithm import log, log1p, log2, log10, pow
from kernels.emit.vector_math.rounding import ceil, floor, fmod, round, rsqrt, sqrt, trunc
from kernels.emit.vector_math.trigonometry import acos, asin, atan, cos, sin, tan
from kernels.emit.wraps import NAMES as WRAPPING

_WRITTEN = (
    *(exp, exp2, exp10, sigmoid, tanh, erf, log, log2, log10, log1p, pow),
    *(sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh),
    *(sqrt, rsqrt, round, floor, ceil, trunc),
)
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    f"{room}.{function.__name__}": function for room in ("tirx", "prim") for function in _WRITTEN
} | {"tirx.nearbyint": round}
_EXTREMES = {tirx.Max: (Value.most, Value.at_least), tirx.Min: (Value.least, Value.at_most)}
"""The larger or smaller of two values, and of a value and a number."""
for _name in sorted(set(_FUNCTIONS) & set(Op.list_op_names())):
    # Else TVM takes apart a vectorised loop that calls it.
    register_op_attr(_name, "TVectorizable", True, level=11)


def lower(module: Module) -> Module:
    """The module with functions of ours for the calls in ``_FUNCTIONS``; after loops are vectorised."""
    functions = {name: _lowered(function) for name, function in module.functions_items()}
    return tvm.IRModule(functions, attrs=module.attrs)


def _lowered(function: PrimFunc) -> PrimFunc:
    texts: dict[str, str] = {}
    has = Has.of(function.attrs["target"])

    def called(call: Expr) -> Expr:
        name = getattr(call.op, "name", "")
        if name in WRAPPING:
            return _wrapped(WRAPPING[name], call, has, texts)
        write = _FUNCTIONS.get(name)
        return call if write is None else _call(write, call, call.args, has, texts)

    def divided(mod: Expr) -> Expr:
        # Float64 stays libm's: its quotients have 2000 bits.
        small = str(mod.ty.dtype).startswith(("float32", "float16"))
        return _call(fmod, mod, [mod.a, mod.b], has, texts) if small else mod

    def extreme(node: Expr) -> Expr:
        if not str(node.ty.dtype).startswith(("float", "bfloat")):
            return node
        free, bounded = _EXTREMES[type(node)]
        if _is_number(node.a):
            return _call(bounded, node, [node.b, node.a], has, texts)
        if _is_number(node.b):
            return _call(bounded, node, [node.a, node.b], has, texts)
        return _call(free, node, [node.a, node.b], has, texts)

    body = structural.structural_map(
        function.body,
        ((tvm.ir.Call, called), (tirx.Mod, divided), (tirx.Max, extreme), (tirx.Min, extreme)),
    )
    return linked(function.with_body(body), texts)


def _is_number(expr: Expr) -> bool:
    """Whether it is known, in every lane, and no NaN."""
    one = expr.value if isinstance(expr, tirx.Broadcast) else expr
    return isinstance(one, tirx.FloatImm) and not math.isnan(one.value)


def _call(
    write: Callable[..., Value], replaced: Expr, inputs: Sequence[Expr], has: Has, texts: dict[str, str]
) -> Expr:
    """A call of the function that ``write`` writes, whose text is added to ``texts``."""
    kind = replaced.ty.dtype
    # Smaller floats compute as float32.
    format = DOUBLE if kind.bits == DOUBLE.bits else SINGLE
    code = Code(format, _lanes(kind), *has)
    _, by, lanes = str(kind).partition("x")
    computed = f"float{format.bits}{by}{lanes}"
    name = f"tilefleet_{write.__name__}_{computed}"
    if name not in texts:
        define(name, write, code, len(inputs), texts)
    arguments = [tirx.Cast(computed, each) for each in inputs]
    return tirx.Cast(str(kind), tirx.call_pure_extern(computed, name, *arguments))


def _wrapped(word: str, call: Expr, has: Has, texts: dict[str, str]) -> Expr:
    """A call of LLVM's instruction ``word`` without the promise (nsw, nuw) that it does not overflow."""
    kind = call.ty.dtype
    element = f"i{kind.bits}"
    code, name = Code(SINGLE, _lanes(kind), *has), f"tilefleet_{word}_{kind}"

    def write(one: Value, other: Value) -> Value:
        return code.line(element, f"{word} {one.type} {one.name}, {other.name}")

    if name not in texts:
        define(name, write, code, 2, texts, element)
    return tirx.call_pure_extern(str(kind), name, *(tirx.Cast(str(kind), each) for each in call.args))


def _lanes(kind: Any) -> int:
    """How many a vector has; TVM counts those of RISC-V's, of any length, below zero in 16 bits."""
    return int(kind.lanes if kind.lanes < 1 << 15 else kind.lanes - (1 << 16))
