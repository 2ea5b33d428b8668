"""The order of the packed weights of the quantized matrix product."""

from __future__ import annotations

import numpy as np

from kernels.int8.arm.gemm.plan import Plan
from kernels.kernel import Array


def panels(plan: Plan, weights: Array) -> Array:
    """Flattened to (depth, filters), the depth filled up with zeros; each part as the block wants it."""
    flat = np.zeros((plan.padded_depth, plan.conv.out_c), plan.packed_dtype)
    flat[: plan.depth] = weights.reshape(plan.depth, -1)
    steps = flat.reshape(plan.steps, plan.block.depth, -1)
    parts = [plan.block.pack(steps[part.first : part.first + part.steps]) for part in plan.parts]
    return np.concatenate(parts)
