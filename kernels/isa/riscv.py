"""RISC-V of 64 bits."""

from __future__ import annotations

from kernels.isa.base import Isa

RISCV = Isa("riscv", ("riscv64",), lambda _: "RVV")
