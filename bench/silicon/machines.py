"""What stands around the loops of a program: how one is called with its registers, and its way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.silicon.encode import A64, RISCV
from bench.silicon.loops import POINTERS, ROTATED, SCRATCH, ZEROS


@dataclass(frozen=True)
class Machine:
    """``head`` is for the assembler, ``run`` the function that calls a loop, ``back`` ends a turn, ``leave``
    goes back there."""

    head: str
    run: tuple[str, ...]
    back: tuple[str, ...]
    leave: tuple[str, ...]


_A64_SAVED = (
    *(f"stp x{number}, x{number + 1}, [sp, #{(number - 18) * 8}]" for number in range(18, 30, 2)),
    *(f"stp d{number}, d{number + 1}, [sp, #{96 + (number - 8) * 8}]" for number in range(8, 16, 2)),
    "str x30, [sp, #160]",
)
_A64_RUN = (
    ".globl silicon_run",
    "silicon_run:",
    "sub sp, sp, #176",
    *_A64_SAVED,
    "mov x30, x0",
    "mov x29, x1",
    f"mov x{ZEROS}, x2",
    f"mov x{SCRATCH}, x3",
    f"mov x{POINTERS}, x4",
    "mov x24, #3",
    "mov x25, #5",
    *(f"mov x{number}, x{POINTERS}" for number in range(ROTATED)),
    *(f"movi v{number}.16b, #1" for number in range(32)),
    "adr x17, 5f",
    "str x17, [sp, #168]",
    "blr x30",
    "5:",
    *(line.replace("stp", "ldp").replace("str", "ldr") for line in _A64_SAVED),
    "add sp, sp, #176",
    "ret",
)

# The loops have s1 for the count, zeros at s2, memory to write to at s3.
_RISCV_RUN = (
    ".globl silicon_run",
    "silicon_run:",
    "addi sp, sp, -32",
    *("sd ra, 0(sp)", "sd s1, 8(sp)", "sd s2, 16(sp)", "sd s3, 24(sp)"),
    *("mv s1, a1", "mv s2, a2", "mv s3, a3"),
    "jalr a0",
    *("ld ra, 0(sp)", "ld s1, 8(sp)", "ld s2, 16(sp)", "ld s3, 24(sp)"),
    "addi sp, sp, 32",
    "ret",
)

MACHINES: Mapping[str, Machine] = {
    "aarch64": Machine(
        A64[1], _A64_RUN, ("sub x29, x29, #1", "cbnz x29, 1b"), ("ldr x30, [sp, #168]", "ret")
    ),
    "riscv64": Machine(RISCV[1], _RISCV_RUN, ("addi s1, s1, -1", "bnez s1, 1b"), ("ret",)),
}
"""By the instruction set of a simulated board."""
