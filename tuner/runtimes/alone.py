"""One runtime in a process of its own: what it takes to start, to run and in memory, and what it computes.

``python -m tuner.runtimes.alone REQUEST.json`` (``engine``, ``path``, its ``inputs``, the file ``feeds`` with
all ``names``, ``threads``, ``outputs``) prints a line of JSON and leaves the outputs in the file ``outputs``.
With ``page``, that of a simulated clock, times are its cycles. Imports what ``engines.py`` does, and no more
of this project than that, ``pages.py`` and ``guest_clock.py``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tuner.runtimes.engines import LOAD, read_arrays
from tuner.runtimes.guest_clock import simulated
from tuner.runtimes.pages import present_bytes


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


if __name__ == "__main__":
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
