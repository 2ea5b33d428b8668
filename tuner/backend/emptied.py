"""Constants without elements made values: a module that has any is exported, and can never be loaded."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from compiler.lower.operators.nothing import nothing


def without_empty(module: Any) -> Any:
    """The module without them, wherever they come from; all that can be folded is."""
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function) and _has_empty(function):
            made = _Emptied(module, function)
            changed = made.visit_expr(function)
            module = made.builder_.get()
            module[variable] = changed
    return module


def _is_empty(expression: Any) -> bool:
    return isinstance(expression, tvm.ir.GenericConst) and 0 in getattr(expression.value, "shape", ())


def _has_empty(function: Any) -> bool:
    found: list[Any] = []
    relax.analysis.post_order_visit(function, lambda each: found.append(each) if _is_empty(each) else None)
    return bool(found)


@mutator
class _Emptied(PyExprMutator):  # type: ignore[misc]  # TVM is Any to mypy
    """Calls of functions that write nothing, in the place of these constants."""

    def __init__(self, module: Any, function: Any) -> None:
        super().__init__(module)
        self._beside = [each for each in function.params if isinstance(each.ty, relax.TensorType)]

    def visit_generic_const_(self, op: Any) -> Any:
        if not _is_empty(op):
            return op
        return nothing(self.builder_, self._beside, op.value.shape, str(op.value.dtype))
