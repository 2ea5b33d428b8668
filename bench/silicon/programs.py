"""The loops of all rows as one program, and what the clock of a simulated board counts for each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.silicon.encode import ARCHITECTURE, AssemblyError
from bench.silicon.loops import POINTERS, ROTATED, SCRATCH, ZEROS, Loop
from tuner.runtimes.emulated import emulate
from worker.fleet.drivers.agent_build import BUILD_TIMEOUT_S, SOURCES, STATIC
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.sim_prices import TICKS

ITERATIONS = 8
_SAVED = (
    *(f"stp x{number}, x{number + 1}, [sp, #{(number - 18) * 8}]" for number in range(18, 30, 2)),
    *(f"stp d{number}, d{number + 1}, [sp, #{96 + (number - 8) * 8}]" for number in range(8, 16, 2)),
    "str x30, [sp, #160]",
)
_RUN = (
    ".globl silicon_run",
    "silicon_run:",
    "sub sp, sp, #176",
    *_SAVED,
    "mov x30, x0",
    "mov x29, x1",
    f"mov x{ZEROS}, x2",
    f"mov x{SCRATCH}, x3",
    f"mov x{POINTERS}, x4",
    "mov x24, #3",
    "mov x25, #5",
    *(f"mov x{number}, x{POINTERS}" for number in range(ROTATED)),
    *(f"movi v{number}.16b, #1" for number in range(32)),
    "blr x30",
    *(line.replace("stp", "ldp").replace("str", "ldr") for line in _SAVED),
    "add sp, sp, #176",
    "ret",
)


def measured(loops: Sequence[Loop], board: str, folder: Path) -> dict[Loop, float | None]:
    """Cycles of a step of each loop on ``board``; None where its processor does not know an instruction.

    ``folder`` gets the program and the clock. Raises AssemblyError, or EmulationError when it does not run.
    """
    program, page = folder / "loops", folder / "loops.clock"
    _build(loops, program, SIM_MODELS[board].triple)
    lines = emulate(board, folder, [str(program), str(page)], page, folder).splitlines()
    return {loop: _cycles(line, loop) for loop, line in zip(loops, lines, strict=True)}


def _cycles(line: str, loop: Loop) -> float | None:
    if line == "unknown":
        return None
    return int(line.split()[0]) / (TICKS * ITERATIONS * loop.repeats * loop.steps)


def _build(loops: Sequence[Loop], program: Path, triple: str) -> None:
    source = program.with_suffix(".s")
    source.write_text(assembly(loops))
    guest = Path(__file__).with_name("loops_guest.c")
    options = ["-target", triple, *STATIC, "-I", str(SOURCES), str(guest), str(source), "-o", str(program)]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "ziglang", "cc", *options],
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise AssemblyError(f"the loops do not assemble:\n{done.stderr[-4000:]}")


def assembly(loops: Sequence[Loop]) -> str:
    """The text of all loops, and of what loops_guest.c wants beside them."""
    lines = [f".arch {ARCHITECTURE}", ".text", ".p2align 6", *_RUN]
    for number, loop in enumerate(loops):
        lines += [
            ".p2align 6",
            f"silicon_{number}:",
            *loop.setup,
            ".p2align 6",
            "1:",
            f".rept {loop.repeats}",
            *loop.lines,
            ".endr",
            "sub x29, x29, #1",
            "cbnz x29, 1b",
            "ret",
        ]
    lines += [
        '.section .data.rel.ro, "aw"',
        ".p2align 3",
        *(".globl " + name for name in ("silicon_loops", "silicon_count", "silicon_iterations")),
        "silicon_loops:",
        *(f".quad silicon_{number}" for number in range(len(loops))),
        f"silicon_count: .quad {len(loops)}",
        f"silicon_iterations: .quad {ITERATIONS}",
        '.section .note.GNU-stack, "", %progbits',
    ]
    return "\n".join([*lines, ""])
