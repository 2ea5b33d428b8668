"""What TVM's reductions begin with, where that is not what leaves every number as it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import tirx
from tvm.ir.prim.expr import FloatImm
from tvm.s_tir.stmt import SBlock
from tvm_ffi import structural

LARGEST = {kind: float(np.finfo(kind).max) for kind in ("float16", "float32", "float64")}


def begun_at_infinity(module: Any) -> Any:
    """The module, its maxima and minima of floats begun at an infinity, not at the largest number.

    Else the largest of a row that is -inf throughout, as a mask makes it, would be a number. Kernels of ours
    have no blocks that begin with anything.
    """
    functions = {
        variable: function.with_body(structural.structural_map(function.body, (SBlock, _begun)))
        for variable, function in module.functions.items()
        if isinstance(function, tirx.PrimFunc) and "tirx.is_scheduled" not in (function.attrs or {})
    }
    for variable, function in functions.items():
        module[variable] = function
    return module


def _begun(block: Any) -> Any:
    if block.init is None:
        return block
    init = structural.structural_map(block.init, (FloatImm, _unlimited))
    parts = (block.iter_vars, block.reads, block.writes, block.name_hint, block.body, init)
    return SBlock(*parts, block.alloc_buffers, block.match_buffers, block.annotations)


def _unlimited(value: Any) -> Any:
    kind = str(value.ty.dtype)
    if abs(value.value) != LARGEST.get(kind):
        return value
    return tirx.const(math.copysign(math.inf, value.value), kind)
