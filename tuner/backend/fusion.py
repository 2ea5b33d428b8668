"""What TVM computes, fused and scheduled so that it does not hold up the kernels."""

from __future__ import annotations

import itertools
import math
from typing import Any

import tvm
from tvm import relax
from tvm.s_tir import Schedule

from kernels.emit.compile import KERNEL_ATTRIBUTE
from kernels.loops.schedule import LOOPS_ATTRIBUTE, NO_LOOPS_ATTRIBUTE, schedule
from kernels.target import Target
from tuner.backend.emptied import without_empty
from tuner.backend.identities import begun_at_infinity
from tuner.backend.quanta import quantize
from tuner.backend.reductions import fusable
from tuner.backend.reshapes import merged_reshapes

PARALLEL_ELEMENTS = 32 * 1024
"""Loops over fewer elements take about as long as waking another thread."""
DATA_PARALLEL = 0
MOST_FUSED = 64
"""Operators a function: what takes hundreds (the concats of steps that are written one by one) compiles for
half a minute, and is no faster for it."""


def optimise(module: Any, target: Target, threads: int) -> Any:
    """Fold constants, fuse what is left of the model into few loops and split those over ``threads``."""
    module = fused(module, target)
    for variable, function in module.functions.items():
        if isinstance(function, tvm.tirx.PrimFunc) and "tirx.is_scheduled" not in (function.attrs or {}):
            module[variable] = _scheduled(function, variable.name_hint, target, threads)
    return module


def fused(module: Any, target: Target) -> Any:
    """``optimise`` without the loops: TVM's functions as it makes and fuses them."""
    lowered = tvm.transform.Sequential(
        [
            relax.transform.DecomposeOpsForInference(),
            relax.transform.RemoveRedundantReshape(),
            relax.transform.LegalizeOps({"relax.quantize": quantize}),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
        ]
    )
    fuse = tvm.transform.Sequential(
        [
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
            relax.transform.DeadCodeElimination(["main"]),
        ]
    )
    current = tvm.transform.PassContext.current()
    limits = {**current.config, "relax.FuseOps.max_depth": MOST_FUSED}
    with tvm.target.Target(target.tvm), tvm.transform.PassContext(current.opt_level, config=limits):
        return begun_at_infinity(fuse(fusable(without_empty(lowered(merged_reshapes(module))))))


def _scheduled(function: Any, name: str, target: Target, threads: int) -> Any:
    """The function in loops of ours, else in TVM's; kernels of ours never get here."""
    try:
        made = schedule(function, target, threads, name)
    except Exception as error:  # NoLoops, or whatever TVM's analysis runs into: TVM's own loops are right
        left = _parallel(function) if threads > 1 else function
        return left.with_attr(NO_LOOPS_ATTRIBUTE, f"{type(error).__name__}: {error}".partition("\n")[0])
    return made.with_attr({KERNEL_ATTRIBUTE: True, LOOPS_ATTRIBUTE: True})


def _parallel(function: Any) -> Any:
    """The function with the outer loops of its larger blocks in parallel."""
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
