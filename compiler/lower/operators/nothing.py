"""Tensors without elements: TVM's machine cannot load them as constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, te, tirx

from compiler.lower.operators.functions import OPAQUE


def nothing(builder: Any, beside: Sequence[Any], shape: Sequence[int], dtype: str) -> Any:
    """A tensor of ``shape``, which has no element. What is ``beside`` it, a value that a run decides, keeps
    TVM from making a constant of it."""
    given = [builder.normalize(value) for value in beside[:1]]
    ends = [te.placeholder([*each.ty.shape.values], each.ty.dtype.dtype, name="beside") for each in given]
    made = te.compute(tuple(shape), lambda *_: tirx.const(0, dtype), name="nothing")
    function = te.create_prim_func([*ends, made]).without_attr("global_symbol")
    added = builder.add_func(function.with_attr("op_pattern", OPAQUE), "nothing")
    return builder.emit(relax.call_tir(added, given, relax.TensorType(tuple(shape), dtype)))
