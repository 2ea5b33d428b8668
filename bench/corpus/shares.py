"""Where the time of a built model goes: our functions, and the heaviest of all others."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from kernels.loops.schedule import NO_LOOPS_ATTRIBUTE

OWN_ATTRIBUTES = ("tilefleet.", "tirx.is_scheduled")
"""How the attributes begin that functions of ours have: kernels, and what was scheduled here."""
BUILTIN, MACHINE = "vm.builtin.", "calls and memory"
"""How the names of Relax's own functions begin, which do little; what they and the calls as such take."""
ROUNDS, LONGEST_S = 7, 10.0


@dataclass(frozen=True)
class Shares:
    """Seconds of one run, and of its calls by the function's name: how many, and what they take in all."""

    whole_s: float
    calls: dict[str, tuple[int, float]]
    own: frozenset[str]
    reasons: dict[str, str]
    """Why the loops of functions are not ours, where they might have been."""

    @property
    def own_share(self) -> float:
        """The share of the time that is spent in functions of ours."""
        own_s = sum(seconds for name, (_, seconds) in self.calls.items() if name in self.own)
        return min(1.0, own_s / self.whole_s)  # added up in another order, the last bit may be more

    def foreign(self, count: int = 5) -> list[dict[str, Any]]:
        """The functions of others that take longest: calls, share of the time, why they are none of ours."""
        others = [(name, *each) for name, each in self.calls.items() if name not in self.own]
        heaviest = sorted(others, key=lambda each: -each[2])[:count]
        return [
            {"name": n, "calls": calls, "share": seconds / self.whole_s, "why": self.reasons.get(n, "")}
            for n, calls, seconds in heaviest
        ]


def own_functions(module: Any) -> frozenset[str]:
    """The names of the functions in a lowered module that we generate or schedule."""
    left = reasons_of(module)
    return frozenset(
        variable.name_hint
        for variable, function in module.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc)
        and variable.name_hint not in left
        and any(
            str(name).startswith(OWN_ATTRIBUTES) for name in (function.attrs.keys() if function.attrs else ())
        )
    )


def reasons_of(module: Any) -> dict[str, str]:
    """Of the functions in a lowered module that were left to TVM's loops, why each was."""
    return {
        variable.name_hint: str(function.attrs[NO_LOOPS_ATTRIBUTE])
        for variable, function in module.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc) and NO_LOOPS_ATTRIBUTE in (function.attrs or {})
    }


def measure(machine: Any, arguments: Sequence[Any], module: Any) -> Shares:
    """Time runs of the lowered ``module``'s ``main`` whole and call by call, in turns, by thread time."""
    main = machine["main"]
    names: list[str] = []
    taken: list[float] = []
    began = 0.0

    def instrument(_: Any, name: str, before: bool, __: Any, *___: Any) -> int:
        nonlocal began
        if before:
            began = time.thread_time()
        elif not name.startswith(BUILTIN):
            taken.append(time.thread_time() - began)
            names.append(name)
        return 0

    main(*arguments)
    whole: list[float] = []
    runs: list[list[float]] = []
    started = time.perf_counter()
    for turn in range(ROUNDS):
        if turn > 1 and time.perf_counter() - started > LONGEST_S:
            break
        machine.set_instrument(None)
        start = time.thread_time()
        main(*arguments)
        whole.append(time.thread_time() - start)
        machine.set_instrument(instrument)
        names.clear()
        taken.clear()
        main(*arguments)
        runs.append([*taken])
    machine.set_instrument(None)
    medians = [statistics.median(each) for each in zip(*runs, strict=True)]
    calls: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for name, seconds in zip(names, medians, strict=True):
        count, total = calls[name]
        calls[name] = (count + 1, total + seconds)
    # Timed one by one, the calls of a small model come to more than its run.
    whole_s = statistics.median(whole)
    computed = sum(seconds for _, seconds in calls.values())
    excess = max(1.0, computed / whole_s)
    shared = {name: (count, seconds / excess) for name, (count, seconds) in calls.items()}
    shared[MACHINE] = (len(names), max(0.0, whole_s - computed))
    return Shares(whole_s, shared, own_functions(module), reasons_of(module))
