"""SConv with POWER10's matrix unit as its micro-kernel (seed 003, section 5.1)."""

from __future__ import annotations

from kernels import mma
from kernels.sconv import SConv
from kernels.sconv_plan import MATRIX_SCONV
from kernels.target import Target
from kernels.workload import Workload


class MatrixSConv(SConv):
    """SConv whose register block is made of 4x4 accumulators; knobs and version are those of SConv."""

    name = MATRIX_SCONV

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """What SConv computes, on targets with POWER10's matrix unit."""
        if target.matrix != mma.NAME:
            return f"{target.name} has no matrix unit of POWER10's kind"
        return super().why_not(workload, target)

    def blocks(self, target: Target) -> list[tuple[int, int]]:
        """The shapes of all accumulators together whose operands are least: 8x16, 16x8 and 12x8 of them."""
        return [(2 * mma.SIDE, 4), (4 * mma.SIDE, 2), (3 * mma.SIDE, 2)]
