"""Sums, differences and products of integers that begin again at a type's other end, as models have them.

TVM takes integers for numbers without ends (``4 * x / 4`` is x, ``x + 1 > x`` true), as those of loops and
places are, and tells LLVM that none leaves its type. Of what data decide, that is not so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm.ir.op import Op, register_op_attr
from tvm_ffi import structural

from kernels.emit.tvm import ir, tirx, tvm
from kernels.emit.types import Expr, Module

OPERATORS = {tirx.Add: "add", tirx.Sub: "sub", tirx.Mul: "mul"}
"""What may leave a type, and LLVM's word for it."""
NAMES = {f"tilefleet.wrapping_{word}": word for word in OPERATORS.values()}
"""Operators that TVM's simplifier knows nothing of; ``vector_math/lower.py`` makes code of them."""
_PURE = 1

for _name in NAMES:
    if _name not in Op.list_op_names():
        tvm.ir._ffi_api.RegisterOp(_name, "arithmetic modulo a power of two")
        register_op_attr(_name, "TCallEffectKind", _PURE)
        register_op_attr(_name, "TVectorizable", True)


def is_wrapping(expr: Expr) -> bool:
    """Whether it is such a sum, difference or product."""
    return isinstance(expr, tvm.ir.Call) and getattr(expr.op, "name", "") in NAMES


def combined(combiner: Callable[[Expr, Expr], Expr], one: Expr, other: Expr) -> Expr:
    """What ``combiner``, an operator of TVM's, makes of two values that are data."""
    word = OPERATORS.get(combiner)
    kind = one.ty
    if word is None or not str(kind.dtype).startswith(("int", "uint")):
        return combiner(one, other)
    return tvm.ir.Call(f"tilefleet.wrapping_{word}", [one, other], ret_ty=kind)


def of_data(expr: Expr) -> Expr:
    """``expr`` with all arithmetic that wraps of what is loaded, but for where from."""

    def loaded(node: Any, _: Any) -> Any:
        return node

    def arithmetic(node: Any, mutator: Any) -> Any:
        made = mutator.default_mutate(node)
        return combined(type(made), made.a, made.b) if _is_data(made) else made

    return tvm_ffi.structural_mutate(
        expr, [(ir.TensorLoad, loaded), *((each, arithmetic) for each in OPERATORS)]
    )


def keep_wraps(module: Module) -> Module:
    """The module with ``of_data`` of all that its functions store."""

    def store(node: Any) -> Any:
        return tirx.BufferStore(node.buffer, of_data(node.value), node.indices)

    functions = {
        name: function.with_body(structural.structural_map(function.body, ((tirx.BufferStore, store),)))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def _is_data(expr: Expr) -> bool:
    found = False

    def look(node: Any, _: Any) -> Any:
        nonlocal found
        found = True
        return node

    tvm_ffi.structural_mutate(expr, [(ir.TensorLoad, look)])
    return found
