"""Where the time of a built model goes, call by call."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

BUILTIN, MACHINE = "vm.builtin.", "calls and memory"
"""How the names of Relax's own functions begin, which do little; what they and the calls as such take."""

VARIANT = "main_"
"""And those of the functions that one of several sets of input shapes has."""


@dataclass(frozen=True)
class Profile:
    """Seconds of runs timed whole, and of the calls in one run by function: how many, what they take in all.

    The calls add up to no more than the middle run; ``MACHINE`` is what is left of it.
    """

    whole: tuple[float, ...]
    calls: dict[str, tuple[int, float]]

    @property
    def seconds(self) -> float:
        """The middle run."""
        return statistics.median(self.whole)

    @property
    def spread(self) -> float:
        """The interquartile range of the runs over the middle one."""
        low, _, high = statistics.quantiles([*self.whole, *self.whole], n=4, method="inclusive")
        return (high - low) / self.seconds


def profile(
    machine: Any,
    arguments: Sequence[Any],
    clock: Callable[[], float],
    rounds: int,
    least: int,
    longest_s: float,
    told: Callable[[], None] = lambda: None,
) -> Profile:
    """Run ``main`` of a virtual machine ``rounds`` times whole, and as often with each call timed, in turns.

    After ``longest_s`` seconds fewer runs do, but ``least`` of each are made; ``told`` hears of every one.
    """
    main = machine["main"]
    names: list[str] = []
    taken: list[float] = []
    begun: list[float] = []  # a call around others is later by what they take

    def instrument(_: Any, name: str, before: bool, __: Any, *___: Any) -> int:
        if before:
            begun.append(clock())
            return 0
        seconds = clock() - begun.pop()
        if not name.startswith((BUILTIN, VARIANT)):
            taken.append(seconds)
            names.append(name)
            begun[:] = [each + seconds for each in begun]
        return 0

    whole: list[float] = []
    runs: list[list[tuple[str, float]]] = []
    main(*arguments)
    started = time.perf_counter()
    for turn in range(rounds):
        if turn >= least and time.perf_counter() - started > longest_s:
            break
        machine.set_instrument(None)
        start = clock()
        main(*arguments)
        whole.append(clock() - start)
        machine.set_instrument(instrument)
        names.clear()
        taken.clear()
        main(*arguments)
        runs.append([*zip(names, taken, strict=True)])
        told()
    machine.set_instrument(None)
    return profile_of(whole, runs)


def profile_of(whole: Sequence[float], runs: Sequence[Sequence[tuple[str, float]]]) -> Profile:
    """The profile of runs timed whole, and of ``runs`` as the names and seconds of their calls in order."""
    middle = statistics.median(whole)
    medians = [statistics.median(seconds for _, seconds in call) for call in zip(*runs, strict=True)]
    # Timed one by one, the calls of a small model come to more than its run.
    excess = max(1.0, sum(medians) / middle)
    calls: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for (name, _), seconds in zip(runs[0], medians, strict=True):
        count, total = calls[name]
        calls[name] = (count + 1, total + seconds / excess)
    calls[MACHINE] = (len(medians), max(0.0, middle - sum(medians)))
    return Profile(tuple(whole), dict(calls))
