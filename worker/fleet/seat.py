"""A board as one coordinator sees it, and the lease that the coordinator has of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from worker.fleet.book import Entry, Lease, Listing, Purpose, Usage
from worker.fleet.matching import View
from worker.fleet.states import Health, Standing, activity
from worker.fleet.status import BoardStatus

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
    ending: bool = False

    def fault(self, reason: str) -> None:
        """Say that the board, not what ran on it, failed: it is checked before it gets anything else."""
        self.why_faulty = reason

    def doubt(self, reason: str) -> None:
        """Say that the board may have failed: it is checked as well, but that is no failure of its own."""
        self.why_doubtful = reason

    def used(self, usage: Usage) -> None:
        """Say what the board was used for."""
        self.usage = usage


class Seat:
    """What is known of one board: its worker's description, its page in the book, and our lease of it.

    ``on_change`` is called whenever the board does something else than before or is in another health.
    """

    def __init__(self, listing: Listing, on_change: Callable[[BoardStatus], None]) -> None:
        self._on_change = on_change
        self._view: View | None = None
        self.describe(listing)
        self.entry = Entry(Standing())
        self.held: Held | None = None
        self.pending = False
        """A lease is being taken."""
        self.refused = False
        """The book refused a lease for a reason that it has not told yet."""
        self.last_seen = 0.0
        self.version = 0
        """Grows with every change of ours: what was read from the book before one is out of date."""
        self.fresh = True
        """No check has passed since it was seen first."""
        self.unchecked_s = 0.0
        """Busy time since the last passed check."""
        self.failed_checks = 0
        self.check_at = 0.0
        """Not checked before this time of the loop's clock."""
        self._shown: View | None = None

    def describe(self, listing: Listing) -> None:
        """Take over what the board's worker says."""
        self.listing, self._view = listing, None
        self._target_key = listing.target.key  # a hash, and not free

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
        """Whether our lease is being given back: the book may have its use already, which we count then."""
        return self.held is not None and self.held.ending

    @property
    def taken(self) -> bool:
        """Whether it cannot be leased now, however it is."""
        return self.pending or self.refused or self.lease is not None

    @property
    def view(self) -> View:
        """What matching needs to know."""
        if self._view is None:
            listing, standing, lease = self.listing, self.entry.standing, self.lease
            self._view = View(
                id=listing.id,
                target=self._target_key,
                threads=listing.threads,
                tags=frozenset(listing.tags),
                activity=activity(
                    alive=listing.alive,
                    leased=self.taken,
                    measuring=lease is not None and lease.purpose is Purpose.TRIALS,
                    draining=standing.draining,
                ),
                health=standing.health,
                draining=standing.draining,
                clock=listing.clock,
                reason=standing.reason,
                job=lease.job if lease else None,
            )
        return self._view

    def changed(self) -> None:
        """Say that something of it was changed; a lease that is being taken is not worth telling."""
        self._view = None
        if not self.pending and self.view != self._shown:
            self._shown = self.view
            self._on_change(self.status())

    def stand(self, standing: Standing) -> None:
        """Take over its standing from the book."""
        self.entry = replace(self.entry, standing=standing)
        self.changed()

    def ended(self, usage: Usage, *, counts: bool) -> None:
        """Our lease ended, after this use, which ``counts`` unless the lease had been lost before."""
        total = self.entry.usage
        if counts:
            total = Usage(
                total.trials + usage.trials, total.busy_s + usage.busy_s, total.timed_s + usage.timed_s
            )
        self.entry = replace(self.entry, usage=total, lease=None, expires=None)
        self.held = None
        self.unchecked_s += usage.busy_s
        self.changed()

    def status(self) -> BoardStatus:
        """What is shown of it."""
        listing, entry, view = self.listing, self.entry, self.view
        return BoardStatus(
            id=listing.id,
            target=listing.target,
            clock=listing.clock,
            threads=listing.threads,
            tags=listing.tags,
            alive=listing.alive,
            activity=view.activity,
            health=view.health,
            reason=(listing.problem if view.health in _SERVING else "") or view.reason,
            draining=view.draining,
            lease=self.lease,
            expires=entry.expires,
            job=view.job,
            trials=entry.usage.trials,
            busy_s=entry.usage.busy_s,
            timed_s=entry.usage.timed_s,
            last_seen=self.last_seen,
            reference_s=entry.reference_s,
            last_check=entry.last_check,
            checked=entry.checked,
        )
