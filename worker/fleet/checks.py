"""When a board's health is checked."""

from __future__ import annotations

from worker.fleet.seat import Seat
from worker.fleet.states import Health

REFERENCE_EVERY_S = 60.0
"""Busy time after which a good board's clock is compared with its reference again."""
BACKOFF_S = (2.0, 5.0)
"""Pauses after the first failed check, the second, and all later ones."""
CHECK_LIMIT_S = 300.0
"""A check that takes longer has failed."""


def due(seat: Seat, now: float) -> bool:
    """Whether a board is to be checked at ``now`` (the loop's clock).

    One of unknown health is, and one that comes into service, however good it was then; so is a good one from
    time to time, unless its clock is simulated and so cannot drift.
    """
    standing = seat.entry.standing
    if seat.taken or not seat.listing.alive or standing.draining or now < seat.check_at:
        return False
    if standing.health is Health.GOOD:
        return seat.fresh or (seat.listing.clock == "wall" and seat.unchecked_s >= REFERENCE_EVERY_S)
    return standing.health is Health.UNKNOWN


def passed(seat: Seat) -> None:
    """After a check that passed."""
    seat.failed_checks, seat.unchecked_s, seat.fresh = 0, 0.0, False


def failed(seat: Seat, now: float) -> None:
    """After a check that failed at ``now``: the next one is not at once."""
    seat.check_at = now + BACKOFF_S[min(seat.failed_checks, len(BACKOFF_S) - 1)]
    seat.failed_checks += 1
