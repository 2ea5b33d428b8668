"""How a board is and what it does: two small state machines, after LAVA's.

An infrastructure error makes a board ``unknown``; then only a passed health check makes it ``good`` again,
and repeated failure, or a lie, makes it ``bad``: parked until an operator returns it, or, after failures of
one that this service starts, until a pause is over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

MAX_FAILURES = 3
"""Failures in a row, of leases and health checks together, that park a board."""


class Health(StrEnum):
    """How a board is; only ``good`` ones get trials, and only ``unknown`` ones are checked."""

    GOOD = "good"
    UNKNOWN = "unknown"
    BAD = "bad"
    MAINTENANCE = "maintenance"
    RETIRED = "retired"


class Activity(StrEnum):
    """What a board does; ``draining`` is a leased one that gets nothing more."""

    OFFLINE = "offline"
    IDLE = "idle"
    LEASED = "leased"
    MEASURING = "measuring"
    DRAINING = "draining"


@dataclass(frozen=True)
class Standing:
    """A board's health with its reason. ``failures`` counts those in a row, which good service ends."""

    health: Health = Health.UNKNOWN
    reason: str = "new"
    failures: int = 0
    draining: bool = False

    def fault(self, reason: str) -> Standing:
        """After an infrastructure error."""
        return self._failed(reason)

    def lied(self, reason: str) -> Standing:
        """After it said what cannot be: nothing that it measures counts until an operator returns it."""
        if self.lying or self.health in (Health.MAINTENANCE, Health.RETIRED):
            return self
        return replace(self, health=Health.BAD, reason=reason, failures=0)

    @property
    def lying(self) -> bool:
        """Whether a lie made it bad."""
        return self.health is Health.BAD and not self.failures

    @property
    def failing(self) -> bool:
        """Whether failures in a row, and no lie, made it bad."""
        return self.health is Health.BAD and self.failures >= MAX_FAILURES

    def try_again(self) -> Standing:
        """Check a board that kept failing once more; the row of failures goes on."""
        if not self.failing:
            return self
        return replace(self, health=Health.UNKNOWN, reason=f"is tried again: {self.reason}")

    def check_failed(self, reason: str) -> Standing:
        """After a health check that did not pass."""
        return self._failed(reason)

    def check_passed(self) -> Standing:
        """After a passed health check; a board that keeps failing between checks is not cleared by it."""
        return replace(self, health=Health.GOOD, reason="") if self.health is Health.UNKNOWN else self

    def served(self) -> Standing:
        """After a lease without an infrastructure error."""
        return replace(self, failures=0)

    def came_back(self) -> Standing:
        """When it answers again after it was gone: nobody knows what happened to it meanwhile."""
        return self.doubt("came back")

    def doubt(self, reason: str) -> Standing:
        """After something that need not be its fault, but may be."""
        return replace(self, health=Health.UNKNOWN, reason=reason) if self.health is Health.GOOD else self

    def drain(self, reason: str) -> Standing:
        """Let the present lease end and give no other."""
        return replace(self, draining=True, reason=reason)

    def drained(self) -> Standing:
        """When a draining board's lease has ended."""
        return replace(self, health=Health.MAINTENANCE, draining=False) if self.draining else self

    def park(self, reason: str) -> Standing:
        """Take it out of service at once."""
        return Standing(Health.MAINTENANCE, reason)

    def put_back(self, reason: str = "returned to service") -> Standing:
        """Back in service, if it passes its health check."""
        return Standing(Health.UNKNOWN, reason)

    def retire(self, reason: str) -> Standing:
        """Gone for good."""
        return Standing(Health.RETIRED, reason)

    def repaired(self, said: str) -> Standing:
        """After its operator's repair, which said that: whether it helped is seen by the health check."""
        return replace(self, reason="; ".join(filter(None, (self.reason, f"repair: {said}"))))

    def _failed(self, reason: str) -> Standing:
        if self.health not in (Health.GOOD, Health.UNKNOWN):
            return self
        failures = self.failures + 1
        health = Health.BAD if failures >= MAX_FAILURES else Health.UNKNOWN
        return replace(self, health=health, reason=reason, failures=failures)


def pause_s(failures: int, first_s: float, longest_s: float) -> float:
    """How long a board that failed so often in a row is left alone: twice as long each time."""
    return min(longest_s, first_s * 2.0 ** min(failures - MAX_FAILURES, 30))


def activity(*, alive: bool, leased: bool, measuring: bool, draining: bool) -> Activity:
    """What a board does, from what is known of it."""
    if not alive:
        return Activity.OFFLINE
    if leased and draining:
        return Activity.DRAINING
    if measuring:
        return Activity.MEASURING
    return Activity.LEASED if leased else Activity.IDLE
