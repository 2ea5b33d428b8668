"""The command line beside a running service, and what it built in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np


class Shell:
    """Runs the real command beside the service."""

    def __init__(self, home: Path) -> None:
        self.environment = {**os.environ, "TILEFLEET_HOME": str(home)}
        self.environment.pop("TILEFLEET_URL", None)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tilefleet", *map(str, arguments)]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=800, check=False
        )
        assert "Traceback" not in done.stderr
        return done

    def __call__(self, *arguments: object) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fails(self, *arguments: object) -> str:
        done = self.run(*arguments)
        assert done.returncode == 1, done.stdout
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stderr


_SCRIPT = """
import sys, numpy, tvm
vm = tvm.relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
out = vm["main"](tvm.runtime.tensor(numpy.load(sys.argv[2])))
numpy.savez(sys.argv[3], *(each.numpy() for each in ([out] if hasattr(out, "numpy") else out)))
"""


def run_module(module: Path, data: np.ndarray) -> list[np.ndarray]:
    """What a fresh process with nothing but TVM computes."""
    file, results = module.with_suffix(".npy"), module.with_suffix(".npz")
    np.save(file, data)
    command = [sys.executable, "-c", _SCRIPT, str(module), str(file), str(results)]
    subprocess.run(command, check=True, timeout=120, cwd=module.parent)
    with np.load(results) as arrays:
        return [arrays[name] for name in arrays.files]
