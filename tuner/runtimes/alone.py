"""One runtime in a process of its own: what it takes to start, to run and in memory, and what it computes.

``python -m tuner.runtimes.alone REQUEST.json`` (``engine``, ``path``, its ``inputs``, the file ``feeds`` with
all ``names``, ``threads``, ``outputs``) prints a line of JSON and leaves the outputs in the file ``outputs``.
With ``page``, that of a simulated clock, times are its cycles. Imports what ``engines.py`` does, and no more
of this project than that and ``pages.py``.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tuner.runtimes.engines import LOAD, read_arrays
from tuner.runtimes.pages import present_bytes

# worker/agent/simulation_page.h
_GETPID, _CALL, _PUBLISH, _RESET = 172, 0x53494D43, 0, 1
_COUNTERS_AT, _TICKS_PER_CYCLE = 80, 240


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Load, run twice, and say what that took."""
    given = read_arrays(request["feeds"], request["names"])
    feeds = {name: given[name] for name in request["inputs"]}
    clock, reset = (time.perf_counter, None) if "page" not in request else simulated(request["page"])
    started = clock()
    engine = LOAD[request["engine"]](Path(request["path"]), feeds, request["threads"])
    outputs = [np.array(each) for each in engine.outputs()]
    start = clock() - started
    if reset is not None:
        engine.run()
        reset()
        engine.run()
    began = clock()
    engine.run()
    found: dict[str, Any] = {"start": start, "call": clock() - began}
    found["resident_bytes"] = _resident() if reset is None else present_bytes()
    np.savez(request["outputs"], *outputs)
    return found


def _resident() -> int:
    """What this process has in memory, Python and NumPy with it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    words = next((line.split() for line in lines if line.startswith("VmRSS:")), ["", "0"])
    return int(words[1]) * 1024


def simulated(page: str) -> tuple[Callable[[], float], Callable[[], object]]:
    """Cycles so far, and what empties the caches of the clock."""
    with Path(page).open("rb") as file:
        shared = mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ)
    system = ctypes.CDLL(None)

    def ask(what: int) -> float:
        system.syscall(*map(ctypes.c_long, (_GETPID, _CALL, what, 0, 0)))
        ticks: int = struct.unpack_from("<Q", shared, _COUNTERS_AT)[0]
        return ticks // _TICKS_PER_CYCLE

    return lambda: ask(_PUBLISH), lambda: ask(_RESET)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
