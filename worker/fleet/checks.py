"""When a board's health is checked."""

from __future__ import annotations

from worker.fleet.known_board import KnownBoard
from worker.fleet.states import Health
from worker.fleet.times import FleetTimes


def due(known: KnownBoard, now: float, times: FleetTimes) -> bool:
    """Whether a board is to be checked at ``now`` (the loop's clock).

    One of unknown health is, and one that comes into service, however good it was then; so is a good one from
    time to time, unless its clock is simulated and so cannot drift.
    """
    standing = known.entry.standing
    if known.taken or not known.listing.alive or standing.draining or now < known.check_at:
        return False
    if standing.health is Health.GOOD:
        return known.fresh or (known.listing.clock == "wall" and known.unchecked_s >= times.check_every_s)
    return standing.health is Health.UNKNOWN


def passed(known: KnownBoard) -> None:
    """After a check that passed."""
    known.failed_checks, known.unchecked_s, known.fresh = 0, 0.0, False


def failed(known: KnownBoard, now: float, times: FleetTimes) -> None:
    """After a check that failed at ``now``: the next one is not at once."""
    pauses = times.check_backoff_s
    known.check_at = now + pauses[min(known.failed_checks, len(pauses) - 1)]
    known.failed_checks += 1
