"""Reductions fused with the chains around them, which TVM itself leaves apart."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from kernels.loops.program import NoLoops, read

INJECTIVE = 2
"""TVM's operator pattern of what may be fused with whatever elementwise is before or behind it."""


def fusable(module: Any) -> Any:
    """The module, its reductions and norms marked as fusable on both sides.

    Loops of ours compute all of them row by row, so LayerNorm written as nine nodes becomes one function.
    """
    for variable, function in module.functions.items():
        if isinstance(function, tirx.PrimFunc) and "tirx.is_scheduled" not in (function.attrs or {}):
            try:
                read(function)
            except NoLoops:
                continue
            module[variable] = function.with_attr("op_pattern", INJECTIVE)
    return module
