"""The order of the packed weights of a matrix product."""

from __future__ import annotations

import numpy as np

from kernels.float.gemm.plan import Plan
from kernels.kernel import Array


def panels(plan: Plan, weights: Array) -> Array:
    """Panels of ``vectors`` x lanes columns, each k x columns, the last one filled up with zeros."""
    gemm = plan.workload
    filled = np.zeros((gemm.k, plan.panels * plan.width), np.float32)
    filled[:, : gemm.n] = weights
    ordered = filled.reshape(gemm.k, plan.panels, plan.width).transpose(1, 0, 2)
    return np.ascontiguousarray(ordered).reshape(-1)
