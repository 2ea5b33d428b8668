"""Integer operators as formulas of Relax, for loops over sizes that are left open: the same bits as those of
``kernels/operators/int8``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from compiler.lower.operators.constants import constant
from kernels.operators.int8.add import QAdd
from kernels.operators.int8.base import QOperator
from kernels.operators.int8.lookup import QLookup
from kernels.operators.int8.mul import QMul
from kernels.workload.qconv2d import LIMITS

POINT = 31
"""Bits of a QMul's multiplier behind the point."""


def formula_of(what: QOperator, values: Sequence[Any]) -> Any | None:
    """What computes ``what`` of stored ``values``; None where that is not element by element."""
    if isinstance(what, QLookup):
        return _looked_up(what, values[0])
    if isinstance(what, QAdd):
        return _sum(what, values)
    return _product(what, values) if isinstance(what, QMul) else None


def _looked_up(what: QLookup, value: Any) -> Any:
    if what.clamp is not None:
        low, high = (relax.const(limit, what.dtype) for limit in what.clamp)
        return relax.op.maximum(relax.op.minimum(value, high), low)
    place = relax.op.subtract(relax.op.astype(value, "int32"), relax.const(LIMITS[what.dtype][0], "int32"))
    return relax.op.take(constant(np.array(what.table, what.out_dtype)), place, axis=0, mode="fast")


def _sum(what: QAdd, values: Sequence[Any]) -> Any:
    terms = [
        relax.op.multiply(operand, relax.const(multiplier, "int32"))
        for operand, multiplier in zip(_centred(what, values, "int32"), what.multipliers, strict=True)
    ]
    total = relax.op.add(relax.op.add(*terms), relax.const(1 << (what.shift - 1), "int32"))
    return _clipped(what, relax.op.right_shift(total, relax.const(what.shift, "int32")), "int32")


def _product(what: QMul, values: Sequence[Any]) -> Any:
    total = relax.op.multiply(*_centred(what, values, "int64"))
    total, places = relax.op.multiply(total, relax.const(what.multiplier, "int64")), POINT + what.shift
    if places:
        half = relax.const(1 << (places - 1), "int64")
        total = relax.op.right_shift(relax.op.add(total, half), relax.const(places, "int64"))
    return _clipped(what, total, "int64")


def _centred(what: QAdd | QMul, values: Sequence[Any], dtype: str) -> list[Any]:
    return [
        relax.op.subtract(relax.op.astype(value, dtype), relax.const(zero, dtype))
        for value, zero in zip(values, what.zeros[:2], strict=True)
    ]


def _clipped(what: QAdd | QMul, whole: Any, dtype: str) -> Any:
    low, high = (relax.const(limit, dtype) for limit in what.clamp)
    moved = relax.op.add(whole, relax.const(what.zeros[2], dtype))
    return relax.op.astype(relax.op.maximum(relax.op.minimum(moved, high), low), what.result_dtype)
