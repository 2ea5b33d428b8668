"""Where the time of a built model goes: our functions, and the heaviest of all others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from kernels.loops.schedule import NO_LOOPS_ATTRIBUTE
from tuner.backend.profile import profile

OWN_ATTRIBUTES = ("tilefleet.", "tirx.is_scheduled")
"""How the attributes begin that functions of ours have: kernels, and what was scheduled here."""
ROUNDS, LEAST, LONGEST_S = 7, 2, 10.0


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
    found = profile(machine, arguments, time.thread_time, ROUNDS, LEAST, LONGEST_S)
    return Shares(found.seconds, found.calls, own_functions(module), reasons_of(module))
