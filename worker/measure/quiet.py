"""Which repeats of a timing count: those that the rest of the machine left alone (docs/measuring.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

ENOUGH = 3
"""So many quiet repeats make a time."""
PATIENCE = 4.0
"""By so many times may the search for quiet repeats lengthen a timing."""


@dataclass
class Repeats:
    """Seconds of the repeats of one candidate, in their order."""

    quiet: list[float] = field(default_factory=list)
    disturbed: list[float] = field(default_factory=list)

    def __iadd__(self, more: Repeats) -> Repeats:
        self.quiet += more.quiet
        self.disturbed += more.disturbed
        return self

    def __len__(self) -> int:
        return len(self.quiet) + len(self.disturbed)

    @property
    def enough(self) -> bool:
        """Whether the quiet ones make a time; of fewer repeats than that, all have to be quiet."""
        return len(self.quiet) >= min(ENOUGH, len(self))

    @property
    def counted(self) -> list[float]:
        """The quiet ones, or the shortest few of all where these are not enough: others only add time."""
        return self.quiet if self.enough else sorted(self.quiet + self.disturbed)[:ENOUGH]


def divider(session: Any) -> Callable[[Sequence[float]], Repeats]:
    """Divides what was timed last in an RPC session; all of it is quiet where the board cannot tell."""
    try:
        disturbances = session.get_function("tilefleet.disturbances")
    except Exception:  # TVM's own server, or an agent of before
        return lambda seconds: Repeats(list(seconds))

    def divide(seconds: Sequence[float]) -> Repeats:
        told, found = bytes(disturbances()), Repeats()
        for at, each in enumerate(seconds):
            (found.disturbed if told[at : at + 1] == b"1" else found.quiet).append(each)
        return found

    return divide
