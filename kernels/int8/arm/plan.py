"""What plans of quantized kernels for Arm have in common: targets, operands of one sign, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.int8.kernel import QuantizedPlan
from kernels.isa.arm import AARCH64, ARM32
from kernels.kernel import Array
from kernels.knobs import KnobSet
from kernels.target import Target


@dataclass(frozen=True)
class NeonKnobs(KnobSet):
    """``requant`` is how sums are scaled (``kernels/int8/requantize.py``)."""

    requant: str


@dataclass(frozen=True)
class NeonPlan(QuantizedPlan):
    """A plan whose code finishes its sums by ``finish.py``."""

    knobs: NeonKnobs

    @property
    def offset(self) -> int:
        """128 either way where bytes are multiplied and the data's sign is not theirs."""
        signs = (self.packed_dtype, self.conv.data_dtype)
        return {("int8", "uint8"): -128, ("uint8", "int8"): 128}.get(signs, 0)

    @property
    def padded_filters(self) -> int:
        """Filters are finished in fours, which may begin with the last."""
        return self.conv.out_c + 3

    def constants(self, inputs: Sequence[Array]) -> list[Array]:
        """As of any quantized kernel, but shifts go left, as NEON's do.

        Those of ``requant=shift`` are the whole scale, with the bit that its multiplier stands for.
        """
        packed, bias, *scale = super().constants(inputs)
        if not self.conv.scale_length:
            return [packed, bias, *scale]
        multiplier, shift = scale
        left: Array = -shift - (1 if self.knobs.requant == "shift" else 0)
        return [packed, bias, multiplier, left]


def why_not_neon(target: Target) -> str | None:
    """Why ``target`` is no Arm with NEON, or None when it is."""
    if target.isa is AARCH64 or (target.isa is ARM32 and target.has("neon")):
        return None
    return f"there is no NEON on {target.name}"
