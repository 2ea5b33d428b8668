"""What quantized kernels for Arm have in common: targets, constants, and exact ways to scale sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels import requantize
from kernels.kernel import Array
from kernels.qkernel import QuantizedKernel
from kernels.qworkload import QConv2d
from kernels.space import Config
from kernels.target import Target, is_arm32
from kernels.workload import Workload


class NeonKernel(QuantizedKernel):
    """A quantized kernel that finishes its sums by ``kernels/qfinish.py``; all its configs are exact."""

    def padded_filters(self, workload: QConv2d, config: Config, target: Target) -> int:
        """Filters are finished in fours, which may begin with the last."""
        return workload.out_c + 3

    def constants(
        self, workload: Workload, config: Config, target: Target, inputs: Sequence[Array]
    ) -> list[Array]:
        """As of any quantized kernel, but shifts go left, as NEON's do, and scales are normal.

        Those of ``requant=shift`` are the whole scale, with the bit that its multiplier stands for.
        """
        packed, bias, *scale = super().constants(workload, config, target, inputs)
        if not scale:
            return [packed, bias]
        multiplier, shift = normal(*scale)
        left: Array = -shift - (1 if config["requant"] == "shift" else 0)
        return [packed, bias, multiplier, left]


def ways(conv: QConv2d, target: Target) -> list[int | str]:
    """The values of the knob ``requant``: the exact ones, which take the fewest instructions on Arm."""
    return [how for how in requantize.choices(conv, target) if requantize.why_inexact(str(how)) is None]


def why_not_neon(target: Target) -> str | None:
    """Why ``target`` is no Arm with NEON, or None when it is."""
    if target.triple.startswith("aarch64") or (is_arm32(target) and target.has("neon")):
        return None
    return f"there is no NEON on {target.name}"


def normal(multiplier: Array, shift: Array) -> tuple[Array, Array]:
    """The same scales with multipliers from 2^30 on wherever the shift goes left.

    Then a sum that saturates when it is shifted left has a product that is beyond any 8-bit result.
    """
    spare = 30 - np.floor(np.log2(np.maximum(multiplier, 1).astype(np.float64))).astype(np.int32)
    more = np.where(multiplier > 0, np.minimum(spare, np.maximum(-shift, 0)), 0).astype(np.int32)
    return multiplier << more, shift + more
