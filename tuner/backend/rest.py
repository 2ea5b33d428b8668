"""What is no product: TVM's operators, fused and scheduled so that they do not hold up the kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax, te
from tvm.s_tir import Schedule

from kernels.target import Target

PARALLEL_ELEMENTS = 32 * 1024
"""Loops over fewer elements take about as long as waking another thread."""
DATA_PARALLEL = 0


def lrn(builder: Any, data: Any, attributes: Mapping[str, Any]) -> Any:
    """ONNX's LRN over the channels (axis 1), in one loop nest that LLVM vectorises.

    TVM's importer goes through a 3-D pool and a scalar ``powf`` an element. The exponent is usually 0.75,
    for which two square roots do.
    """
    size = attributes["size"]
    alpha, beta = attributes.get("alpha", 1e-4), attributes.get("beta", 0.75)
    bias = attributes.get("bias", 1.0)
    before = (size - 1) // 2

    def normalise(x: Any) -> Any:
        channels = x.shape[1]

        def square(indices: Any, offset: int) -> Any:
            # Clamped and masked, not branched on: a branch would keep the inner loop scalar.
            at = indices[1] + offset
            inside = tvm.tirx.all(at >= 0, at < channels).astype(x.dtype)
            near = x(indices[0], te.max(te.min(at, channels - 1), 0), *indices[2:])
            return near * near * inside

        def element(*indices: Any) -> Any:
            total = square(indices, -before)
            for offset in range(1 - before, size - before):
                total = total + square(indices, offset)
            return x(*indices) / _power(total * (alpha / size) + bias, beta)

        return te.compute(x.shape, element, name="lrn")

    return builder.call_te(normalise, data, primfunc_name_hint="lrn")


def _power(value: Any, exponent: float) -> Any:
    if exponent == 0.75:
        root = te.sqrt(value)
        return root * te.sqrt(root)
    return te.sqrt(value) if exponent == 0.5 else te.power(value, exponent)


def optimise(module: Any, target: Target, threads: int) -> Any:
    """Fold constants, fuse what is left of the model into few loops and split those over ``threads``."""
    passes = tvm.transform.Sequential(
        [
            relax.transform.DecomposeOpsForInference(),
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
            relax.transform.DeadCodeElimination(["main"]),
        ]
    )
    with tvm.target.Target(target.tvm):
        module = passes(module)
    if threads > 1:
        for variable, function in module.functions.items():
            if isinstance(function, tvm.tirx.PrimFunc) and "tirx.is_scheduled" not in (function.attrs or {}):
                module[variable] = _parallel(function)
    return module


def _parallel(function: Any) -> Any:
    """The function with the outer loops of its larger blocks in parallel; kernels of ours never get here."""
    schedule = Schedule(function)
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        loops = schedule.get_loops(block)
        extents = [schedule.get(loop).extent for loop in loops]
        kinds = [variable.iter_type for variable in schedule.get(block).iter_vars]
        if not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents) or len(kinds) != len(loops):
            continue
        if math.prod(int(extent) for extent in extents) < PARALLEL_ELEMENTS:
            continue
        # Batch and channels; below them a core should find enough to do.
        outer = list(
            itertools.takewhile(lambda pair: pair[1] == DATA_PARALLEL, zip(loops, kinds, strict=True))
        )
        if outer:
            schedule.parallel(schedule.fuse(*(loop for loop, _ in outer[:2])))
    return schedule.mod["main"]
