"""A program of another architecture under QEMU, with the clock of a simulated board as its plugin."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from worker.fleet.drivers.sim_command import emulation
from worker.fleet.drivers.sim_models import SIM_MODELS

TIMEOUT_S = 1800


class EmulationError(RuntimeError):
    """The program failed, or QEMU did; the message says how."""


def emulate(
    board: str,
    root: Path,
    command: Sequence[str],
    page: Path,
    state_dir: Path,
    environment: Mapping[str, str] | None = None,
    text: str = "",
) -> str:
    """What ``command`` prints on the emulated processor of ``board``.

    ``root`` has its libraries as ``tuner.runtimes.debian`` unpacks them, ``page`` is its clock's and made
    anew, ``state_dir`` has the clock or gets it, ``text`` is its input. Raises EmulationError.
    """
    multiarch, root = SIM_MODELS[board].triple.replace("-musl", "-gnu"), root.resolve()
    libraries = f"{root}/usr/lib/{multiarch}:{root}/lib/{multiarch}"
    emulator, *words = emulation(SIM_MODELS[board], state_dir, page, board)
    line = [emulator, *words, "-L", str(root)]
    for name, value in {"LD_LIBRARY_PATH": libraries, **(environment or {})}.items():
        line += ["-E", f"{name}={value}"]
    try:
        done = subprocess.run(
            [*line, *command],
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={"PATH": os.environ.get("PATH", "")},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmulationError(f"{emulator} does not run, or takes too long: {error}") from None
    if done.returncode:
        said = done.stderr.strip()[-500:] or f"it ended with code {done.returncode}"
        raise EmulationError(f"it failed under {emulator}: {said}")
    return done.stdout
