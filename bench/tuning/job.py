"""One job of the bench: a fresh service tunes a model, and all that is to be told of it."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench import timing
from bench.service import service
from bench.tuning import stopwatch

if TYPE_CHECKING:
    from tilefleet.client import Client

READY_S = 400
"""A simulated board's agent is built at its first start."""


@dataclass(frozen=True)
class Case:
    """What is tuned, where, on how many threads, and for how many seconds."""

    model: str
    board: str
    threads: int
    budget_s: float


def tune(case: Case, path: Path, pairs: int) -> dict[str, Any]:
    """The row of a case: what the job says, its seconds by phase, and what ``pairs`` of the stopwatch say.

    ``wall_s`` are the seconds from the submission on, ``elapsed_s`` those that count for the budget: what the
    first job has measured of its board comes before. ``load`` is the machine's of the last five minutes.

    A job that fails or delivers nothing has a row as well, with its message.
    """
    settings = {"TILEFLEET_BOARDS": case.board, "TILEFLEET_BOARD_THREADS": str(case.threads)}
    with service(**settings) as client:
        target = _target_of(client, case.board)
        model = client.upload(path)
        begun = time.monotonic()
        job = client.submit(model=model.hash, target=target, threads=case.threads, seconds=case.budget_s)
        phases, ended = _phases(client, job.id)
        job = client.job(job.id)
        log = list(client.job_log(job.id, "best"))
    row = asdict(case) | {
        "machine": timing.processor(),
        "state": job.state.value,
        "message": job.message,
        "trials": job.trials,
        "failed": job.failed,
        "wall_s": ended - begun,
        "elapsed_s": job.elapsed_s,
        "load": os.getloadavg()[1],
        "phases": phases,
        "estimated_ms": job.estimated_ms,
        "built_ms": job.built.measured_ms if job.built else None,
        "verdict": job.verdict.model_dump() if job.verdict else None,
        "no_verdict": job.no_verdict,
    }
    if case.board == "host" and job.verdict:
        with TemporaryDirectory(prefix="tilefleet-bench-") as folder:
            row["stopwatch"] = stopwatch.gain(path, log, case.threads, pairs, Path(folder))
    return row


def _target_of(client: Client, board: str) -> str:
    """The board's target, once it is there."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        for each in client.boards():
            if each.id == board and each.health == "good":
                return each.target
        time.sleep(0.2)
    raise SystemExit(f"bench.tuning: the board {board} did not come up within {READY_S} s")


def _phases(client: Client, job: int) -> tuple[dict[str, float], float]:
    """Seconds of each phase of a job that runs, by when its events come, and when it ended."""
    seconds: defaultdict[str, float] = defaultdict(float)
    phase, since = "queued", time.monotonic()
    for event in client.events(job):
        now, told = time.monotonic(), event.data.get("phase", phase)
        seconds[phase] += now - since
        phase, since = told, now
    return dict(seconds), since
