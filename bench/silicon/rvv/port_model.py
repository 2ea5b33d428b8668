"""A core that runs a loop cycle by cycle, in the order of its code, with what the table of vectors has.

Each cycle up to ``width`` instructions start: one does where its sources are there, the last value of what it
writes is, and its pipe is free within the cycle; where it cannot, none after it does. It shares no code with
the clock (``worker/simclock/in_order.c``), which has no cycles, so that one can check the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.fleet.drivers.sim_vectors import VECTOR_CORES

Register = tuple[str, int]
_PIPES: Mapping[str, tuple[str, ...]] = {
    "A": ("I0",),
    "I": ("I0", "I1"),
    "F": ("F",),
    "L": ("L0", "L1"),
} | {name: (name,) for name in ("VF", "VI", "VL")}
"""Each group of pipes by its members, as in LLVM's model of the X60."""
_TURNS = 12


@dataclass(frozen=True)
class Work:
    """An instruction of a loop: its pipe, how long it takes that and its result, and its registers."""

    pipe: str
    cycles: float
    latency: float
    reads: tuple[Register, ...] = ()
    writes: tuple[Register, ...] = ()


_COUNTER: Register = ("x", 9)
WAY_BACK = (Work("I", 1, 1, (_COUNTER,), (_COUNTER,)), Work("A", 1, 1, (_COUNTER,)))
"""What ends a turn: ADDI and BNEZ of a counter."""


def cycles(core: str, turn: Sequence[Work]) -> float:
    """Of a turn, once the start is over."""
    known: dict[Register, float] = {}
    free: dict[str, float] = {}
    now, started = 0, 0
    ends = []
    for _ in range(_TURNS):
        for each in turn:
            while True:
                pipe = min(_PIPES[each.pipe], key=lambda name: free.get(name, 0.0))
                ready = max((known.get(one, 0.0) for one in (*each.reads, *each.writes)), default=0.0)
                start = max(ready, free.get(pipe, 0.0), now)
                if started < VECTOR_CORES[core].width and start < now + 1:
                    break
                now, started = now + 1, 0
            started += 1
            free[pipe] = start + each.cycles
            known.update(dict.fromkeys(each.writes, start + each.latency))
        ends.append(now + started / VECTOR_CORES[core].width)
    half = _TURNS // 2
    return (ends[-1] - ends[half - 1]) / (_TURNS - half)
