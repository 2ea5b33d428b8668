"""Which instruction sets there are."""

from __future__ import annotations

from kernels.isa.arm import AARCH64, ARM32
from kernels.isa.base import Isa
from kernels.isa.hexagon import HEXAGON
from kernels.isa.power import POWER
from kernels.isa.riscv import RISCV
from kernels.isa.x86 import X86

# arm64 before arm: the first whose prefix fits.
ISAS = (X86, AARCH64, ARM32, POWER, HEXAGON, RISCV)
UNKNOWN = Isa("unknown", ("",), lambda bits: f"{bits}-bit vectors")
"""Of any other machine: float kernels need to know nothing else of it."""


def isa_of(triple: str) -> Isa:
    """The instruction set of a triple as LLVM spells it."""
    return next((isa for isa in ISAS if triple.startswith(isa.prefixes)), UNKNOWN)
