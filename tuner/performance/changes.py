"""How a model's times differ from those that were kept."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.performance.timed import Part, Timed


@dataclass(frozen=True)
class Change:
    """A part before and after; one of the two is None of what is new, or gone.

    Those of one ``kind`` compute the same, unless that is ``replaced``: then it is some of the same nodes.
    """

    kind: str
    before: Part | None
    after: Part | None

    @property
    def seconds(self) -> float:
        """How much more all calls take."""
        return (self.after.seconds if self.after else 0.0) - (self.before.seconds if self.before else 0.0)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        before, after = (each and each.to_json() for each in (self.before, self.after))
        return {"kind": self.kind, "before": before, "after": after}


@dataclass(frozen=True)
class Changes:
    """All that changed in a model, what costs most first; ``slower`` is whether that is more than allowed."""

    before: Timed
    after: Timed
    each: tuple[Change, ...]
    slower: bool

    @property
    def growth(self) -> float:
        """By which share the whole model takes longer."""
        return _growth(self.before.seconds, self.after.seconds)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "before_s": self.before.seconds,
            "after_s": self.after.seconds,
            "slower": self.slower,
            "changes": [change.to_json() for change in self.each],
        }


def changes(before: Timed, after: Timed, allowed: float) -> Changes:
    """What changed from ``before`` to ``after``.

    Slower is a model that takes more than ``allowed`` longer (a share), or in which a part does that computes
    what it did before: its kind is ``slower``. What is new, gone or replaced is judged by the whole alone. So
    is the same code: when others change, its constants lie elsewhere, and share other cache lines.
    """
    pairs, old, new = _paired(before.parts, after.parts)
    found = [
        Change(_kind(one, two, allowed), one, two)
        for one, two in pairs
        if (one.seconds, one.code) != (two.seconds, two.code)
    ]
    for two in list(new):
        one = next((each for each in old if {*each.nodes} & {*two.nodes}), None)
        if one is not None:
            found.append(Change("replaced", one, two))
            old.remove(one)
            new.remove(two)
    found += [Change("removed", one, None) for one in old] + [Change("new", None, two) for two in new]
    found.sort(key=lambda change: -change.seconds)
    too_slow = _growth(before.seconds, after.seconds) > allowed
    return Changes(before, after, tuple(found), too_slow or any(each.kind == "slower" for each in found))


def _kind(before: Part, after: Part, allowed: float) -> str:
    if (before.code, before.calls) == (after.code, after.calls):
        return "same code"
    if _growth(before.seconds, after.seconds) > allowed:
        return "slower"
    if after.seconds == before.seconds:
        return "same time"
    return "faster" if after.seconds < before.seconds else "a little slower"


def _growth(before: float, after: float) -> float:
    if before == after:
        return 0.0
    return after / before - 1 if before else math.inf


def _paired(
    before: Sequence[Part], after: Sequence[Part]
) -> tuple[list[tuple[Part, Part]], list[Part], list[Part]]:
    """Parts that compute the same, and those of either that the other has not.

    Of several with one key, those that compute the same nodes belong together, then those of one config.
    """
    pairs: list[tuple[Part, Part]] = []
    old, new = list(before), list(after)
    likenesses: tuple[Callable[[Part], Hashable], ...] = (
        lambda part: (part.key, part.nodes, str(part.config)),
        lambda part: (part.key, part.nodes),
        lambda part: (part.key, str(part.config)),
        lambda part: part.key,
    )
    for likeness in likenesses:
        waiting: defaultdict[Hashable, list[Part]] = defaultdict(list)
        for part in old:
            waiting[likeness(part)].append(part)
        for part in list(new):
            if waiting[likeness(part)]:
                other = waiting[likeness(part)].pop(0)
                pairs.append((other, part))
                new.remove(part)
                old.remove(other)
    return pairs, old, new
