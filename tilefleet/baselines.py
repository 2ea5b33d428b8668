"""Times of a library for the tasks of a job, measured on this machine and stored beside ours."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from server.baselines.schemas import Baseline
from server.jobs.schemas import Job, Task
from tilefleet.client import Client
from tilefleet.errors import TilefleetError

TIMEOUT_S, PATIENCE_S = 1800, 20.0


def store(client: Client, job: Job, tasks: Sequence[Task]) -> dict[str, Baseline | str]:
    """Time onnxruntime on the tasks' workloads and store it; by workload, the baseline or why there is none.

    Raises TilefleetError when the job's target is not this machine, when something is being measured on it,
    or when onnxruntime is not installed.
    """
    if find_spec("onnxruntime") is None:
        raise TilefleetError("onnxruntime is not installed: pip install onnxruntime")
    if job.clock != "wall":
        raise TilefleetError(f"job {job.id} was timed by {job.clock}: no library runs by that clock")
    _wait_for_boards(client, job.target)
    request = {
        "target": client.target(job.target),
        "threads": job.threads,
        "workloads": [task.workload for task in tasks],
    }
    found: dict[str, Baseline | str] = {}
    for line in _measured(request):
        key = line["workload"]
        if "why" in line:
            found[key] = line["why"]
            continue
        name, version, seconds = (line[name] for name in ("library", "version", "seconds"))
        found[key] = client.put_baseline(
            key, name, version=version, seconds=seconds, target=job.target, threads=job.threads
        )
    return found


def _wait_for_boards(client: Client, target: str) -> None:
    """Two that measure on one machine disturb each other; a health check is over soon."""
    deadline = time.monotonic() + PATIENCE_S
    while busy := [board.id for board in client.boards() if board.target == target and board.lease]:
        if time.monotonic() > deadline:
            raise TilefleetError(f"{', '.join(busy)} is at work, which would disturb the timing: try later")
        time.sleep(0.5)


def _measured(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The answer of ``bench.library_times``, in a process of its own that may be pinned."""
    with tempfile.TemporaryDirectory(prefix="tilefleet-baselines-") as folder:
        file = Path(folder) / "request.json"
        file.write_text(json.dumps(request))
        command = [sys.executable, "-m", "bench.library_times", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise TilefleetError(f"timing the library took more than {TIMEOUT_S} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it printed nothing"]
        raise TilefleetError(f"the library could not be timed: {said[-1]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
