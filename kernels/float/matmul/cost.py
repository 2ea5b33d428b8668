"""What a config of a product of two activations should take."""

from __future__ import annotations

from kernels.float.matmul.plan import Plan


def cycles(plan: Plan) -> float:
    """Each product's blocks, shared out."""
    return plan.workload.batch * plan.blocking.cycles / plan.parts
