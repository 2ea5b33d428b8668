"""A core that runs a loop cycle by cycle, with what the table of instructions has.

Each cycle, finished instructions leave the window in their order, as many more enter it as the front end is
wide, and those that have their sources start, the oldest first, each in the pipe that is free first. It
shares no code with the clock (``worker/simclock/dispatch.c``), which goes instruction by instruction, so that
one can check the other.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bench.silicon.forms.form import Form
from bench.silicon.forms.sections import form
from bench.silicon.loops import is_vector
from bench.silicon.pieces import pieces
from bench.silicon.pipes import EARLY, family, pipes
from bench.silicon.table import rows
from worker.fleet.drivers.sim_prices import CORES

Register = tuple[str, int]
_FLAGS: Register = ("flags", 0)
_PIPES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "A72": {"B": ("B",), "I": ("I0", "I1"), "M": ("M",), "L": ("L",)}
    | {"F0": ("F0",), "F1": ("F1",), "F": ("F0", "F1")},
    "N1": {"B": ("B",), "I": ("I0", "I1", "M"), "M": ("M",), "L": ("L0", "L1")}
    | {"V0": ("V0",), "V1": ("V1",), "V": ("V0", "V1")},
    "V1": {"B": ("B0", "B1"), "I": ("I0", "I1", "M1", "M0"), "M": ("M1", "M0"), "M0": ("M0",)}
    | {"L": ("L0", "L1", "L2"), "V02": ("V0", "V2"), "V13": ("V1", "V3"), "V": ("V0", "V1", "V2", "V3")},
}
"""Each group of pipes by its members. Arm's software optimization guides have them (section 2)."""
_PIECES = ("A72",)
"""Cores whose front end counts pieces of 64 bits, not whole vectors."""
_QUEUES = {"A72": 8}
"""How many wait for each pipe, where it is known."""
_TURNS = 8


@dataclass(frozen=True)
class Cost:
    """The cost of an instruction: the pipes that it can run in, how many cycles it occupies one, its latency,
    its latency to an accumulator of its family (0: no earlier), its part of the front end's width, and
    whether it has a half of that in each of its pipes."""

    pipes: tuple[str, ...]
    keeps: float
    latency: float
    early: float = 0.0
    family: int = 0
    slots: int = 1
    halves: bool = False

    def places(self, pipe: str) -> tuple[str, ...]:
        """The pipes that it takes when it runs in ``pipe``."""
        return self.pipes if self.halves else (pipe,)

    @property
    def each(self) -> float:
        """The cycles that it occupies one of these."""
        return self.keeps / len(self.pipes) if self.halves else self.keeps

    @property
    def waits(self) -> int:
        """Its places in the queue of each: one a cycle, and no more than it has pieces."""
        pieces_there = self.slots // len(self.pipes) if self.halves else self.slots
        return max(1, min(math.ceil(self.each), pieces_there))


@dataclass(frozen=True)
class Work:
    """An instruction of a loop, by the registers that it reads, accumulates and writes."""

    cost: Cost
    reads: tuple[Register, ...] = ()
    accumulates: tuple[Register, ...] = ()
    writes: tuple[Register, ...] = ()


@cache
def costs(core: str) -> Mapping[str, Cost]:
    """The cost of each form that was measured on ``core``, by its text."""
    rates: dict[str, tuple[tuple[str, ...], float]] = {}
    latencies: dict[str, float] = {}
    early: dict[str, float] = {}
    forms: dict[str, Form] = {}
    for row in rows():
        found = form(row.section, row.name)
        if not found:
            continue
        forms.setdefault(found.asm, found)
        rate, latency = row.per_cycle[core], row.latency[core]
        if latency:
            (early if found.forward else latencies).setdefault(
                _all_but_the_last(found.asm) if found.forward else found.asm, latency
            )
        if rate and "chain" not in row.name:
            group = _PIPES[core].get(pipes(core.lower(), row.section, found.mnemonic, rate))
            if group:
                rates.setdefault(found.asm, (group, len(group) / rate))
    made = {}
    for text in rates.keys() & latencies.keys():
        kind = family(forms[text].mnemonic)
        # A product by a lane hands on its sum as that of whole vectors does; others by the guides.
        soon = early.get(_all_but_the_last(text), 1.0 if kind in EARLY else 0.0)
        slots = pieces(forms[text]) if core in _PIECES else 1
        group, keeps = rates[text]
        if math.isclose(slots * len(group) / keeps, CORES[core.lower()].width):
            keeps = 1.0  # the front end limits it, not the pipes
        halves = core in _PIECES and len(group) > 1 and keeps > 1
        made[text] = Cost(group, keeps, latencies[text], soon, kind, slots, halves)
    return made


def _all_but_the_last(text: str) -> str:
    return text.partition("v{m}")[0]


def work(core: str, found: Form, numbers: Mapping[str, int]) -> Work:
    """``found`` with the registers ``numbers``."""
    cost = costs(core)[found.asm]
    reads: list[Register] = [_FLAGS] if found.reads_flags else []
    accumulates: list[Register] = []
    writes: list[Register] = [_FLAGS] if found.writes_flags else []
    for role in found.roles:
        register = ("v" if is_vector(found, role) else "x", numbers[role])
        if role[0] not in "de":
            (accumulates if role in "Da" and cost.early else reads).append(register)
        if role[0] in "dDe":
            writes.append(register)
    return Work(cost, tuple(reads), tuple(accumulates), tuple(writes))


def way_back(core: str) -> list[Work]:
    """What ends a turn: SUB and CBNZ of a counter."""
    subtract = costs(core)["sub x{d}, x{n}, #1"]
    jump = Cost(_PIPES[core]["B"], 1.0, 1.0)
    counter = ("x", 29)
    return [Work(subtract, (counter,), (), (counter,)), Work(jump, (counter,))]


def cycles(core: str, turn: Sequence[Work]) -> float:
    """Of a turn, once the start is over."""
    width, window = CORES[core.lower()].width, CORES[core.lower()].window
    turns = max(_TURNS, 8 * window // len(turn))
    half = turns // 2
    left = _run(_unrolled(turn, turns), width, window, _QUEUES.get(core, math.inf))
    return (left[-1] - left[half * len(turn) - 1]) / (turns - half)


@dataclass(slots=True)
class _Flying:
    """One that is executed once. ``sources`` are what it waits for, each with whether it needs it early."""

    cost: Cost
    sources: list[tuple[_Flying, bool]]
    ready: float = 0.0
    started: float = -1.0
    pipe: str = ""

    def waits(self) -> bool:
        """Whether a source has not started; else ``ready`` is when it can, as far as its sources go."""
        while self.sources:
            source, early = self.sources[-1]
            if source.started < 0:
                return True
            self.ready = max(
                self.ready, source.started + (source.cost.early if early else source.cost.latency)
            )
            self.sources.pop()
        return False


def _unrolled(turn: Sequence[Work], turns: int) -> Iterable[_Flying]:
    writers: dict[Register, _Flying] = {}
    for each in list(turn) * turns:
        sources = [(writers[register], False) for register in each.reads if register in writers]
        for register in each.accumulates:
            if register in writers:
                writer = writers[register]
                same = bool(writer.cost.early) and writer.cost.family == each.cost.family
                sources.append((writer, same))
        flying = _Flying(each.cost, sources)
        writers.update(dict.fromkeys(each.writes, flying))
        yield flying


def _run(program: Iterable[_Flying], width: int, window: int, queue: float) -> list[float]:
    """When each instruction left the window. Where a ``queue`` has an end, an instruction chooses its pipe as
    it enters, and none enters before it."""
    coming, waiting = deque(program), list[_Flying]()
    inside: deque[_Flying] = deque()
    free: dict[str, float] = {}
    left: list[float] = []
    queued: dict[str, int] = {}
    now = room = 0
    while coming or inside:
        while inside and inside[0].started >= 0 and _end(inside[0]) <= now:
            inside.popleft()
            left.append(float(now))
        room = min(room, 0) + width
        while room > 0 and coming and len(inside) < window:
            if not _enters(coming[0].cost, queued, queue):
                break
            inside.append(coming.popleft())
            waiting.append(inside[-1])
            room -= inside[-1].cost.slots
            if queue < math.inf:
                inside[-1].pipe = _emptiest(inside[-1].cost, queued)
                for name in inside[-1].cost.places(inside[-1].pipe):
                    queued[name] = queued.get(name, 0) + inside[-1].cost.waits
        before = waiting
        waiting, next_start = _start(waiting, free, now)
        for each in before:
            if each.pipe and each.started >= 0:
                for name in each.cost.places(each.pipe):
                    queued[name] -= each.cost.waits
        next_end = _end(inside[0]) if inside and inside[0].started >= 0 else float("inf")
        enters = coming and len(inside) < window
        next_event = min(next_start, next_end)
        now = now + 1 if enters or next_event == float("inf") else max(now + 1, int(next_event))
    return left


def _emptiest(cost: Cost, queued: Mapping[str, int]) -> str:
    return min(cost.pipes, key=lambda name: queued.get(name, 0))


def _enters(cost: Cost, queued: Mapping[str, int], queue: float) -> bool:
    """Whether it has a place; one that takes more than a whole queue has it alone."""
    there = max(queued.get(name, 0) for name in cost.places(_emptiest(cost, queued)))
    return there + min(cost.waits, queue) <= queue


def _end(flying: _Flying) -> float:
    return flying.started + flying.cost.latency


def _start(waiting: Iterable[_Flying], free: dict[str, float], now: int) -> tuple[list[_Flying], float]:
    """Start in this cycle what can; the others, and when the first of them can as far as that is known."""
    still, next_start = [], float("inf")
    for each in waiting:
        if each.waits():
            still.append(each)
            continue
        pipe = each.pipe or min(each.cost.pipes, key=lambda name: free.get(name, 0.0))
        names = each.cost.places(pipe)
        start = max(each.ready, now, *(free.get(name, 0.0) for name in names))
        if start < now + 1:
            each.started = start
            free.update(dict.fromkeys(names, start + each.cost.each))
        else:
            next_start = min(next_start, start)
            still.append(each)
    return still, next_start
