"""Reshapes one after another as one: TVM's machine makes a view of that, and loops that copy of several."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

RESHAPES = ("relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten")


def merged_reshapes(module: Any) -> Any:
    """The module with a reshape of known sizes in the place of each chain of operators that only reshape."""
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            module[variable] = _Merging(module).visit_expr(function)
    return relax.transform.DeadCodeElimination(["main"])(module)


@mutator
class _Merging(PyExprMutator):  # type: ignore[misc]  # TVM is Any to mypy
    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        source = self._source(call)
        inner = None if source is None else self._source(self.lookup_binding(source))
        if inner is None or not _is_fixed(call.ty) or not _is_fixed(inner.ty):
            return call
        return self.builder_.normalize(relax.op.reshape(inner, call.ty.shape))

    def _source(self, expression: Any) -> Any:
        """What ``expression`` reshapes, a variable; None where it does anything else."""
        if not isinstance(expression, relax.Call) or not isinstance(expression.op, tvm.ir.Op):
            return None
        data = expression.args[0] if expression.op.name in RESHAPES else None
        return data if isinstance(data, relax.Var) else None


def _is_fixed(ty: Any) -> bool:
    return isinstance(ty.shape, relax.ShapeExpr) and all(
        isinstance(each, tirx.IntImm) for each in ty.shape.values
    )
