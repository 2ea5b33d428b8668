"""Replaces the calls of libm in the functions of a module."""

from __future__ import annotations

import re
from collections.abc import Callable

import tvm
from tvm import tirx
from tvm.ir.op import register_op_attr
from tvm_ffi import structural

from kernels.emit.types import Expr, Module, PrimFunc
from kernels.emit.vector_math.code import DOUBLE, SINGLE, Code, Value
from kernels.emit.vector_math.error_function import erf
from kernels.emit.vector_math.exponential import exp, exp2, exp10, sigmoid, tanh

_FUNCTIONS: dict[str, Callable[..., Value]] = {
    f"tirx.{function.__name__}": function for function in (exp, exp2, exp10, sigmoid, tanh, erf)
}
for _name in _FUNCTIONS:
    # Else TVM takes apart a vectorised loop that calls it.
    register_op_attr(_name, "TVectorizable", True, level=11)

_INTRINSIC = re.compile(r"call (\w+|<\d+ x \w+>) @(llvm\.[\w.]+)\(")


def lower(module: Module) -> Module:
    """The module with functions of ours for the calls in ``_FUNCTIONS``; after loops are vectorised."""
    functions = {name: _lowered(function) for name, function in module.functions_items()}
    return tvm.IRModule(functions, attrs=module.attrs)


def _lowered(function: PrimFunc) -> PrimFunc:
    texts: dict[str, str] = {}

    def replaced(call: Expr) -> Expr:
        write = _FUNCTIONS.get(getattr(call.op, "name", ""))
        return call if write is None else _call(write, call, texts)

    body = structural.structural_map(function.body, (tvm.ir.Call, replaced))
    if not texts:
        return function
    text = tvm.ir.StringImm("\n".join(texts.values()))
    return function.with_body(tirx.AttrStmt(tirx.const(0, "int32"), "pragma_import_llvm", text, body))


def _call(write: Callable[..., Value], call: Expr, texts: dict[str, str]) -> Expr:
    """A call of the function that ``write`` writes, whose text is added to ``texts``."""
    kind = call.ty.dtype
    # Smaller floats compute as float32.
    code = Code(DOUBLE if kind.bits == DOUBLE.bits else SINGLE, kind.lanes)
    computed = f"float{code.format.bits}" + (f"x{kind.lanes}" if kind.lanes > 1 else "")
    name = f"tilefleet_{write.__name__}_{computed}"
    if name not in texts:
        _define(name, write, code, len(call.args), texts)
    arguments = [tirx.Cast(computed, argument) for argument in call.args]
    return tirx.Cast(str(kind), tirx.call_pure_extern(computed, name, *arguments))


def _define(name: str, write: Callable[..., Value], code: Code, arity: int, texts: dict[str, str]) -> None:
    """Add the function in LLVM's language, and what it calls."""
    arguments = [Value(code, code.format.name, f"%x{index}") for index in range(arity)]
    result = write(*arguments)
    parameters = ", ".join(f"{each.type} {each.name}" for each in arguments)
    body = "\n".join(code.lines)
    for kind, intrinsic in set(_INTRINSIC.findall(body)):
        texts[intrinsic] = f"declare {kind} @{intrinsic}({kind})"
    head = f"define linkonce_odr {result.type} @{name}({parameters}) alwaysinline"
    texts[name] = f"{head} {{\n{body}\n  ret {result.type} {result.name}\n}}"
