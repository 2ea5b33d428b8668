"""Which instruction sets there are."""

from __future__ import annotations

import re

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


_MACHINES = re.compile(
    r"x86_64h?|i[3-6]86|aarch64(_be)?|arm64e?|(arm|thumb)(v[4-9][a-z]?)?|powerpc(64)?(le)?|hexagon|riscv(32|64)"
    r"|loongarch(32|64)|mips(64)?(el)?|s390x|sparc(v9|64)?|wasm(32|64)"
)


def why_unknown(triple: str) -> str:
    """Says that LLVM knows no such machine, where it would end the process; empty where it does."""
    machine = triple.partition("-")[0]
    if _MACHINES.fullmatch(machine):
        return ""
    return (
        f"no code can be generated for {machine!r}; a triple begins with its machine as LLVM spells that "
        "(x86_64, aarch64, armv7, powerpc64le, hexagon, riscv64), for example aarch64-linux-gnu"
    )
