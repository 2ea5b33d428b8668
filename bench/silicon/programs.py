"""The loops of all rows as one program, and what the clock of a simulated board counts for each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.silicon.encode import AssemblyError
from bench.silicon.loops import Loop
from bench.silicon.machines import MACHINES, Machine
from tuner.runtimes.emulated import emulate
from worker.fleet.drivers.agent_build import BUILD_TIMEOUT_S, SOURCES, STATIC
from worker.fleet.drivers.sim_core import TICKS
from worker.fleet.drivers.sim_models import SIM_MODELS

ITERATIONS = 20
"""More than a core remembers of the way back, so that it guesses the end wrong in each run."""


def measured(loops: Sequence[Loop], board: str, folder: Path) -> dict[Loop, float | None]:
    """Cycles of a step of each loop on ``board``; None where its processor does not know an instruction.

    ``folder`` gets the program and the clock. Raises AssemblyError, or EmulationError when it does not run.
    """
    program, page = folder / "loops", folder / "loops.clock"
    _build(loops, program, board)
    lines = emulate(board, folder, [str(program), str(page)], page, folder).splitlines()
    return {loop: _cycles(line, loop) for loop, line in zip(loops, lines, strict=True)}


def _cycles(line: str, loop: Loop) -> float | None:
    if line == "unknown":
        return None
    return int(line.split()[0]) / (TICKS * ITERATIONS * loop.repeats * loop.steps)


def _build(loops: Sequence[Loop], program: Path, board: str) -> None:
    triple = SIM_MODELS[board].triple
    source = program.with_suffix(".s")
    source.write_text(assembly(loops, MACHINES[SIM_MODELS[board].isa]))
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


def assembly(loops: Sequence[Loop], machine: Machine) -> str:
    """The text of all loops, and of what loops_guest.c wants beside them."""
    lines = [machine.head, ".text", ".p2align 6", *machine.run]
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
            *machine.back,
            *machine.leave,
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
