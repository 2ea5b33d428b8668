"""What is no product: TVM's operators, fused and scheduled so that they do not hold up the kernels."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from kernels.target import Target


def optimise(module: Any, target: Target, threads: int) -> Any:
    """Fold constants and fuse what is left of the model into few loops."""
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
        return passes(module)
