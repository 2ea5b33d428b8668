"""A board as one coordinator sees it, and the lease that the coordinator has of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from worker.fleet.book import Entry, Lease, Listing, Purpose, Usage
from worker.fleet.states import Health, Standing, activity, pause_s
from worker.fleet.status import BoardStatus
from worker.fleet.times import FleetTimes

_SERVING = (Health.GOOD, Health.UNKNOWN)
"""Healths of a board that only has to be there."""


@dataclass
class Held:
    """A lease while it is used. ``lost`` is set when it is no longer ours: stop, and throw away what comes.

    ``renewed`` is when it was known to be ours last, in seconds of the loop's clock; ``ending`` is set while
    it is given back.
    """

    lease: Lease
    renewed: float
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    usage: Usage = field(default_factory=Usage)
    why_faulty: str = ""
    why_doubtful: str = ""
    why_lying: str = ""
    ending: bool = False

    def fault(self, reason: str) -> None:
        """Say that the board, not what ran on it, failed: it is checked before it gets anything else."""
        self.why_faulty = reason

    def lie(self, reason: str) -> None:
        """Say that the board said what cannot be: it is parked."""
        self.why_lying = reason

    def doubt(self, reason: str) -> None:
        """Say that the board may have failed: it is checked as well, but that is no failure of its own."""
        self.why_doubtful = reason

    def used(self, usage: Usage) -> None:
        """Say what the board was used for."""
        self.usage = usage


class KnownBoard:
    """What is known of one board: its worker's description, its entry in the book, and our lease of it.

    ``on_change`` is called whenever the board does something else than before or is in another health.
    """

    def __init__(self, listing: Listing, on_change: Callable[[BoardStatus], None]) -> None:
        self._on_change = on_change
        self._status: BoardStatus | None = None
        self.describe(listing)
        self.entry = Entry(Standing())
        self.held: Held | None = None
        self.pending = False
        """A lease is being taken."""
        self.refused = False
        """The book refused a lease for a reason that it has not told yet."""
        self.leaving = False
        """It belongs to the fleet no longer, and gets nothing more."""
        self.version = 0
        """Grows with every change of ours: what was read from the book before one is out of date."""
        self.fresh = True
        """No check has passed since it was seen first."""
        self.unchecked_s = 0.0
        """Busy time since the last passed check."""
        self.failed_checks = 0
        self.check_at = 0.0
        """Not checked before this time of the loop's clock."""
        self.bad_since: float | None = None
        """When it was first seen to be bad for its failures, by the loop's clock."""
        self._shown: BoardStatus | None = None

    def describe(self, listing: Listing) -> None:
        """Take over what the board's worker says."""
        self.listing, self._status = listing, None

    @property
    def id(self) -> str:
        """The board's name."""
        return self.listing.id

    @property
    def lease(self) -> Lease | None:
        """The present lease, ours or another's."""
        return self.held.lease if self.held else self.entry.lease

    @property
    def ending(self) -> bool:
        """Whether our lease is being given back: the book may have it no more, which is no loss."""
        return self.held is not None and self.held.ending

    @property
    def taken(self) -> bool:
        """Whether it cannot be leased now, however it is."""
        return self.pending or self.refused or self.lease is not None

    @property
    def status(self) -> BoardStatus:
        """What others need to know of it."""
        if self._status is None:
            listing, standing, lease = self.listing, self.entry.standing, self.lease
            self._status = BoardStatus(
                id=listing.id,
                target=listing.target,
                threads=listing.threads,
                tags=frozenset(listing.tags),
                activity=activity(
                    alive=listing.alive,
                    leased=self.taken,
                    measuring=lease is not None and lease.purpose is Purpose.TRIALS,
                    draining=standing.draining or self.leaving,
                ),
                health=standing.health,
                draining=standing.draining or self.leaving,
                clock=listing.clock,
                reason="leaves the fleet"
                if self.leaving
                else (listing.problem if standing.health in _SERVING else "") or standing.reason,
                job=lease.job if lease else None,
            )
        return self._status

    def changed(self) -> None:
        """Say that something of it was changed; a lease that is being taken is not worth telling."""
        self._status = None
        if not self.pending and self.status != self._shown:
            self._shown = self.status
            self._on_change(self.status)

    def is_to_be_tried_again(self, now: float, times: FleetTimes) -> bool:
        """Whether a board that its worker restarts has been bad for long enough."""
        standing = self.entry.standing
        if not standing.failing or not self.listing.started_here:
            self.bad_since = None
            return False
        if self.bad_since is None:
            self.bad_since = now
        return now - self.bad_since >= pause_s(standing.failures, *times.try_again_s)

    def stand(self, standing: Standing) -> None:
        """Take over its standing from the book."""
        self.entry = replace(self.entry, standing=standing)
        self.changed()

    def ended(self, busy_s: float) -> None:
        """Our lease ended, after so much time spent on trials."""
        self.entry = replace(self.entry, lease=None)
        self.held = None
        self.unchecked_s += busy_s
        self.changed()
