"""Threads and cpus of a bench, and what its times come to; see ``tuner/runtimes/turns.py`` for the times."""

from __future__ import annotations

import math
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tuner.runtimes.turns import take_turns


def limit_threads(threads: int) -> None:
    """Tell every library to use ``threads`` threads; they read it when they are imported, so call it first.

    Raises ValueError when this process may not use that many cpus.
    """
    cpus = len(os.sched_getaffinity(0))
    if threads < 1 or threads > cpus:
        raise ValueError(f"--threads {threads} is not between 1 and the {cpus} cpus this process may use")
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[variable] = str(threads)


def pin(threads: int) -> None:
    """Keep this process to ``threads`` cpus: the last ones, as interrupts tend to sit on the first."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def in_turns(
    functions: Mapping[str, Callable[[], object]], rounds: int = 9, min_s: float = 0.02
) -> dict[str, list[float]]:
    """The wall seconds of ``take_turns``."""
    return {name: turns.wall for name, turns in take_turns(functions, rounds, min_s).items()}


def ratio(peer: Sequence[float], ours: Sequence[float]) -> tuple[float, float, float]:
    """Peer time over ours: ratio of medians, then the 10th and 90th percentile of the paired ratios."""
    paired = sorted(p / o for p, o in zip(peer, ours, strict=True))
    low, high = paired[round(0.1 * (len(paired) - 1))], paired[round(0.9 * (len(paired) - 1))]
    return statistics.median(peer) / statistics.median(ours), low, high


def geomean(values: Iterable[float], weights: Sequence[float] | None = None) -> float | None:
    """Geometric mean, or None of nothing; each value counts as often as its weight says."""
    logs = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logs, weights)) if logs else None


def processor() -> str:
    """The name of this machine's processor."""
    for text in Path("/proc/cpuinfo").read_text().splitlines():
        if text.startswith("model name"):
            return text.partition(":")[2].strip()
    return platform.machine()
