"""The order of narrow weights, of their scales and of their zeros."""

from __future__ import annotations

import numpy as np

from kernels.float.narrow.plan import Plan
from kernels.kernel import Array


def words(plan: Plan, weights: Array) -> Array:
    """[panel][word][column of the panel], 1-D: the first weight of a word is in its lowest bits."""
    gemm = plan.workload
    if weights.shape != gemm.weight_shape:
        raise ValueError(f"{gemm} takes weights {gemm.weight_shape}, got {weights.shape}")
    if gemm.bits == 16:
        return panels(plan, weights.astype(np.float16)).view(np.int16)
    if weights.max(initial=0) >= 2**gemm.bits:
        raise ValueError(f"{gemm} takes quanta below {2**gemm.bits}, got {weights.max()}")
    quanta = np.zeros((plan.words, gemm.together, gemm.n), np.uint32)
    quanta.reshape(plan.filled, gemm.n)[: gemm.k] = weights
    shifts = np.array(plan.shifts, np.uint32)[:, None]
    return panels(plan, (quanta << shifts).sum(1, dtype=np.uint32)).view(np.int32)


def panels(plan: Plan, values: Array) -> Array:
    """(anything, n) as [panel][anything][column of the panel], 1-D, filled up with zeros."""
    filled = np.zeros((len(values), plan.panels * plan.width), values.dtype)
    filled[:, : plan.workload.n] = values
    ordered = filled.reshape(len(values), plan.panels, plan.width).transpose(1, 0, 2)
    return np.ascontiguousarray(ordered).reshape(-1)
