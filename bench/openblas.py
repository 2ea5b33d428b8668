"""im2col and Debian's OpenBLAS for another processor, counted by the clock of a simulated board."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.kernel import Array
from kernels.workload.base import Conv2d
from tuner.runtimes import debian
from tuner.runtimes.emulated import emulate
from worker.fleet.drivers.sim_models import SIM_MODELS

PACKAGES = ("libc6", "libgcc-s1", "libgfortran5", "libopenblas0-serial")
_OLDEST_GLIBC = "2.28"
_BUILD_S = 600


@dataclass(frozen=True)
class Build:
    """Debian's word for a simulated board's machine, and the processor that im2col is compiled for."""

    architecture: str
    cpu: str


BUILDS = {"power10-sim": Build("ppc64el", "pwr10"), "rpi4-sim": Build("arm64", "cortex_a72")}
"""The simulated boards that it is there for."""


@dataclass(frozen=True)
class OpenBlas:
    """What ``fetch`` left in ``root`` for ``board``."""

    board: str
    root: Path

    @property
    def library(self) -> Path:
        """The shared library; it chooses its code by the processor that it finds."""
        return next((self.root / "usr" / "lib").glob("*/openblas-serial/libopenblas.so.0"))

    def conv(self, layer: Conv2d, data: Array, weights: Array, folder: Path) -> tuple[dict[str, Any], Array]:
        """What the clock counts for a warm call, its im2col and its copies, and the result (NCHW, float32).

        ``{"core", "call": counters, "im2col": counters, "packing": counters}``. Raises
        ValueError for a layer with groups or several images, EmulationError when the program fails.
        """
        if layer.groups != 1 or layer.n != 1:
            raise ValueError(f"im2col + OpenBLAS computes one image without groups, not {layer}")
        paths = [folder / f"openblas.{name}" for name in ("data", "weights", "result")]
        np.ascontiguousarray(data, np.float32).tofile(paths[0])
        np.ascontiguousarray(weights, np.float32).tofile(paths[1])
        numbers = (
            *(layer.in_c, layer.in_h, layer.in_w, layer.out_c, layer.kh, layer.kw, *layer.stride),
            *(*layer.pad[:2], *layer.dilation, layer.out_h, layer.out_w),
        )
        page = folder / "openblas.clock"
        command = [str(self._program(folder)), str(page), str(self.library)]
        said = emulate(
            self.board,
            self.root,
            command,
            page,
            folder,
            {"OPENBLAS_NUM_THREADS": "1"},
            " ".join(map(str, (*paths, *numbers))) + "\n",
        )
        core, counted = map(json.loads, said.splitlines())
        return core | counted, np.fromfile(paths[2], np.float32).reshape(layer.out_shape)

    def _program(self, folder: Path) -> Path:
        program = folder / "openblas_guest"
        if not program.exists():
            triple = SIM_MODELS[self.board].triple.replace("-musl", f"-gnu.{_OLDEST_GLIBC}")
            source = Path(__file__).with_name("openblas_guest.c")
            options = ["-target", triple, f"-mcpu={BUILDS[self.board].cpu}", "-O3", "-std=c11", "-s"]
            subprocess.run(
                [sys.executable, "-m", "ziglang", "cc", *options, str(source), "-o", str(program), "-ldl"],
                check=True,
                timeout=_BUILD_S,
            )
        return program


def fetch(board: str, cache: Path) -> OpenBlas:
    """Debian's OpenBLAS for ``board``, fetched into ``cache`` at first use. Raises FetchError."""
    root = cache / f"openblas-{BUILDS[board].architecture}"
    done = root / "fetched"
    if not done.exists():
        debian.unpack(root, BUILDS[board].architecture, PACKAGES)
        done.write_text("")
    return OpenBlas(board, root)
