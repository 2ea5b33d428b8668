"""Arm of 64 and of 32 bits."""

from __future__ import annotations

from kernels.isa.base import Isa

AARCH64 = Isa(
    "aarch64",
    ("aarch64", "arm64"),
    lambda _: "NEON",
    # Kernels are made of NEON. Where a core has SVE, LLVM would keep its numbers of lanes in these vectors.
    features=("-sve",),
    chooses_bounds=False,
    # LLVM loads two neighbours at once, and multiplies by an element of a register.
    broadcasts=2,
)
ARM32 = Isa(
    "arm",
    ("arm",),
    lambda _: "NEON",
    # LLVM's other scheduler starts loads so early that sums and operands no longer fit 16 registers.
    features=("+use-misched",),
    known=frozenset({"neon"}),
    chooses_bounds=False,
)
