"""SConv with POWER10's matrix unit as its micro-kernel (seed 003, section 5.1)."""

from __future__ import annotations

from kernels.emit import mma
from kernels.float.sconv.kernel import SConv
from kernels.float.sconv.micro import MatrixProducts
from kernels.target import Target
from kernels.workload.base import Conv2d


class MatrixSConv(SConv):
    """SConv whose register block is made of 4x4 accumulators; the knobs are those of SConv."""

    name = "sconv_mma"
    version = 7
    products = MatrixProducts

    def why_unfit(self, workload: Conv2d, target: Target) -> str | None:
        """What SConv computes, on targets with POWER10's matrix unit."""
        if target.matrix != mma.NAME:
            return f"{target.name} has no matrix unit of POWER10's kind"
        return super().why_unfit(workload, target)

    def blocks(self, target: Target) -> list[tuple[int, int]]:
        """All eight accumulators as 4x32, 8x16 or 16x8 sums.

        The first reads the fewest filters and writes the fewest lines: it is best for nearly all layers.
        """
        return [(mma.SIDE, 8), (2 * mma.SIDE, 4), (4 * mma.SIDE, 2)]
