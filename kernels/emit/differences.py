"""Differences of floats, kept from TVM's simplifier: it takes ``(x + y) - y`` for ``x``, also of floats.

Models round by that (``x + 12582912 - 12582912``), and with an infinity for y the difference is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_ffi import StructuralKey, structural

from kernels.emit.tvm import tirx, tvm
from kernels.emit.types import Expr, Module, PrimFunc


def keep_differences(module: Module) -> Module:
    """The module with ``a + b * -1``, the same number, for ``a - b`` of floats that have a term in common.

    TVM has no rule for that, and LLVM makes one subtraction of it.
    """
    functions = {name: _kept(function) for name, function in module.functions_items()}
    return tvm.IRModule(functions, attrs=module.attrs)


def _kept(function: PrimFunc) -> PrimFunc:
    named: dict[Any, Expr] = {}

    def name(node: Any) -> Any:
        named[node.var] = node.value
        return node

    def kept(node: Expr) -> Expr:
        kind = str(node.ty.dtype)
        if not kind.startswith(("float", "bfloat")) or _terms(node.a, named).isdisjoint(
            _terms(node.b, named)
        ):
            return node
        return tirx.Add(node.a, tirx.Mul(node.b, tirx.const(-1, kind)))

    structural.structural_map(function.body, ((tirx.Bind, name),))
    return function.with_body(structural.structural_map(function.body, ((tirx.Sub, kept),)))


def _terms(expr: Expr, named: Mapping[Any, Expr]) -> set[Any]:
    """What is added up in ``expr``, and itself; ``named`` is what variables stand for."""
    found, left = set(), [expr]
    while left:
        each = left.pop()
        while isinstance(each, tirx.Var) and each in named:
            each = named[each]
        found.add(StructuralKey(each))  # type: ignore[call-arg]  # the second is made of the first
        if isinstance(each, tirx.Add):
            left += [each.a, each.b]
    return found
