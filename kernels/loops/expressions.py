"""Reading and rewriting TVM's expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tvm_ffi
from tvm.sym.pattern import detect_linear_equation

from kernels.emit.tvm import ir, tirx, tvm
from kernels.emit.types import Expr
from kernels.emit.wraps import is_wrapping

COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
CONDITIONAL = "tirx.if_then_else"
SCALAR = ("tirx.cosh", "tirx.sinh")
"""What TVM takes for operators of vectors and then cannot lower."""
CALL_COST, DIVISION_COST = 12, 4
"""What a call of a function and a division take beside an addition."""


def dtype_of(expr: Expr) -> str:
    """The type of one value."""
    return str(expr.ty.dtype)


def mutate(expr: Expr, *callbacks: tuple[Any, Callable[[Any, Any], Any]]) -> Expr:
    """``expr`` with each node of a type rewritten by its callback: (node, mutator) -> what stands instead."""
    return tvm_ffi.structural_mutate(expr, list(callbacks))


def substitute(expr: Expr, values: dict[Any, Expr]) -> Expr:
    """``expr`` with the variables that ``values`` has replaced."""
    return mutate(expr, (tirx.Var, lambda var, _: values.get(var, var)))


def loads_of(expr: Expr) -> list[Any]:
    """All loads in ``expr``; those in the indices of a load come after it."""
    found: list[Any] = []

    def load(node: Any, mutator: Any) -> Any:
        found.append(node)
        for index in node.indices:
            mutator.mutate(index)
        return node

    mutate(expr, (ir.TensorLoad, load))
    return found


def variables_of(expr: Expr, inside_loads: bool = True) -> set[Any]:
    """The variables that ``expr`` names, buffers aside; without those that only say where to load from."""
    found: set[Any] = set()

    def load(node: Any, mutator: Any) -> Any:
        for index in node.indices if inside_loads else ():
            mutator.mutate(index)
        return node

    def variable(node: Any, _: Any) -> Any:
        found.add(node)
        return node

    mutate(expr, (ir.TensorLoad, load), (tirx.Var, variable))
    return found


def is_call(expr: Expr, name: str) -> bool:
    """Whether ``expr`` calls the operator of that name."""
    return isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op) and expr.op.name == name


def any_node(expr: Expr, kind: Any, holds: Callable[[Any], bool] = lambda _: True) -> bool:
    """Whether ``expr`` has a node of type ``kind`` for which ``holds``."""
    found = False

    def look(node: Any, mutator: Any) -> Any:
        nonlocal found
        found = found or holds(node)
        return mutator.default_mutate(node)

    mutate(expr, (kind, look))
    return found


def is_lazy(expr: Expr) -> bool:
    """Whether ``expr`` has parts that must not be computed where a condition does not hold."""
    return any_node(expr, tvm.ir.Call, lambda call: is_call(call, CONDITIONAL))


def has_vectors(expr: Expr) -> bool:
    """Whether LLVM is given vectors for all of ``expr`` once a variable of it is a vector."""

    def scalar(call: Any) -> bool:
        if not isinstance(call.op, tvm.ir.Op) or call.op.name in SCALAR:
            return True
        return not call.op.get_attr("TVectorizable")

    return not any_node(expr, tvm.ir.Call, scalar)


def cost_of(expr: Expr) -> int:
    """About how many additions ``expr`` is worth."""
    cost = 0

    def count(node: Any, mutator: Any) -> Any:
        nonlocal cost
        if isinstance(node, tvm.ir.Call) and not is_wrapping(node):
            cost += CALL_COST
        elif isinstance(node, tirx.Div):
            cost += DIVISION_COST
        else:
            cost += 1
        return mutator.default_mutate(node)

    def load(node: Any, _: Any) -> Any:
        return node

    kinds: Iterable[Any] = (tvm.ir.Call, tirx.Div, tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min)
    mutate(expr, (ir.TensorLoad, load), *((kind, count) for kind in kinds))
    return cost


def coefficient(expr: Expr, variable: Any) -> int | None:
    """How much ``expr`` grows with ``variable``, a constant; None where it is no such sum."""
    if variable not in variables_of(expr):
        return 0
    found = detect_linear_equation(expr, [variable])
    return int(found[0]) if found and isinstance(found[0], tirx.IntImm) else None
