"""Fair timing of several callables in one process: in turns, pinned, with the spread kept."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence


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
    """Seconds a call of each function, one figure a round; in every round each function has one turn.

    A turn repeats the call until ``min_s`` seconds are full, so that short calls are not timer noise.
    """
    calls: dict[str, int] = {}
    for name, function in functions.items():
        function()
        start = time.perf_counter()
        function()
        calls[name] = max(1, math.ceil(min_s / max(time.perf_counter() - start, 1e-7)))
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                function()
            seconds[name].append((time.perf_counter() - start) / calls[name])
    return seconds


def ratio(peer: Sequence[float], ours: Sequence[float]) -> tuple[float, float, float]:
    """Peer time over ours: ratio of medians, then the 10th and 90th percentile of the paired ratios."""
    paired = sorted(p / o for p, o in zip(peer, ours, strict=True))
    low, high = paired[round(0.1 * (len(paired) - 1))], paired[round(0.9 * (len(paired) - 1))]
    return statistics.median(peer) / statistics.median(ours), low, high


def geomean(values: Iterable[float]) -> float | None:
    """Geometric mean, or None of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logs)) if logs else None
