"""Fair timing of several callables in one process: in turns, each when the others' threads are at rest."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

REST_STEP_S, REST_STEPS = 0.005, 400
RESTING = 0.1
"""A process that uses less than this share of a cpu is at rest."""


@dataclass
class Turns:
    """Seconds a call of one function, one figure a round, by two clocks.

    ``cpu`` is the processor time of the whole process. With one thread it says what ``wall`` would be on a
    machine that nobody else uses, whichever thread a library computes in; with several it is their sum.
    """

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def fair(self, threads: int) -> list[float]:
        """The clock to compare libraries by."""
        return self.cpu if threads == 1 else self.wall


def rest() -> bool:
    """Wait until no thread of this process computes any more; whether that took any waiting.

    Threads of libraries spin for a while in case more work comes, onnxruntime's for 40 ms and TVM's for
    several tenths of a second. Meanwhile whoever else needs their cpus is slowed, up to fivefold.
    """
    for step in range(REST_STEPS):
        wall, cpu = time.perf_counter(), time.process_time()
        time.sleep(REST_STEP_S)
        idle = time.process_time() - cpu < RESTING * (time.perf_counter() - wall)
        if idle and not _others_want_a_cpu():
            return step > 0
    return True


def _others_want_a_cpu() -> bool:
    """Whether another thread of this process computes or would, had others not all cpus at the moment."""
    others = Path("/proc/self/task").glob("*/stat")
    mine = str(threading.get_native_id())
    for stat in others:
        with contextlib.suppress(OSError):  # one that has ended
            if stat.parent.name != mine and stat.read_text().rpartition(") ")[2].startswith("R"):
                return True
    return False


def take_turns(
    functions: Mapping[str, Callable[[], object]], rounds: int = 9, min_s: float = 0.02
) -> dict[str, Turns]:
    """Time all functions; in every round each has one turn.

    A turn repeats the call until ``min_s`` seconds are full, so that short calls are not timer noise. It
    begins when the threads of the one before are at rest, with a call that wakes its own, and that finds in
    the caches what the one before left there.
    """
    calls: dict[str, int] = {}
    for name, function in functions.items():
        rest()
        function()
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        # Whichever says less: one has other processes' time in it, the other all threads'.
        seconds = min(time.perf_counter() - wall, time.process_time() - cpu)
        calls[name] = max(1, math.ceil(min_s / max(seconds, 1e-7)))
    turns = {name: Turns() for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            if rest() or calls[name] > 1:
                function()
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(calls[name]):
                function()
            turns[name].cpu.append((time.process_time() - cpu) / calls[name])
            turns[name].wall.append((time.perf_counter() - wall) / calls[name])
    return turns
