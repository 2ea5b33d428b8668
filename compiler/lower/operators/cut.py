"""The part that counts of a result with a data-dependent shape (``compiler/passes/bounded_shapes/``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, te, tirx

from compiler.lower.operators.functions import OPAQUE


def cut(builder: Any, value: Any, counts: Any, axes: Sequence[int]) -> Any:
    """The first elements of ``value`` along ``axes``, as many as ``counts`` says (int64, one an axis)."""
    value = builder.normalize(value)
    extents = [tirx.Var(f"count{axis}", "int64") for axis in axes]
    found = builder.emit(relax.op.tensor_to_shape(counts))
    builder.match_cast(found, relax.ShapeType(extents))
    shape = [*value.ty.shape.values]
    for axis, extent in zip(axes, extents, strict=True):
        shape[axis] = extent

    whole = te.placeholder([*value.ty.shape.values], value.ty.dtype.dtype, name="whole")
    part = te.compute(shape, lambda *at: whole(*at), name="cut")
    # Fused with others, TVM would call it before the counts are read.
    function = te.create_prim_func([whole, part]).without_attr("global_symbol")
    added = builder.add_func(function.with_attr("op_pattern", OPAQUE), "cut")
    return builder.emit(relax.call_tir(added, [value], relax.TensorType(shape, value.ty.dtype.dtype)))
