"""The fleet's book without a database: for tests, benches and an engine that nobody shares."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from worker.fleet.book import LEASE_S, Check, Entry, Lease, Listing, Purpose, Usage, allows
from worker.fleet.states import Standing


@dataclass
class _Page:
    """One board's page. ``expires`` and ``checked`` are in seconds of the book's clock."""

    standing: Standing = field(default_factory=Standing)
    lease: Lease | None = None
    expires: float = 0.0
    reference_s: float | None = None
    reference_artifact: str = ""
    last_check: Check | None = None
    checked: float | None = None
    usage: Usage = field(default_factory=Usage)


class MemoryBook:
    """A ``Book`` in memory, safe for several threads. ``clock`` is in seconds since the epoch.

    ``history`` holds (board, kind, detail) of everything that happened; ``ended`` each lease that ended, by
    its token: how (``released``, ``expired``, ``revoked``) and what it was used for.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._pages: dict[str, _Page] = {}
        self._lock = threading.Lock()
        self._token = 0
        self._active: dict[int, Lease] = {}
        self.history: list[tuple[str, str, dict[str, Any]]] = []
        self.ended: dict[int, tuple[str, Usage]] = {}

    def enlist(self, boards: Sequence[Listing]) -> None:
        """Make boards known; what is known of their standing stays."""
        with self._lock:
            for board in boards:
                self._pages.setdefault(board.id, _Page())

    def entries(self) -> dict[str, Entry]:
        """All boards by id; a lease that was lost is none."""
        with self._lock:
            return {id: self._entry(page) for id, page in self._pages.items()}

    def acquire(self, board: str, holder: str, purpose: Purpose, job: int | None) -> Lease | None:
        """Lease a board for LEASE_S; None when another holds it or its standing forbids it."""
        with self._lock:
            page = self._pages[board]
            if page.lease is not None and page.expires <= self._clock():
                self._end(page, "expired", Usage())
            if page.lease is not None or not allows(page.standing, purpose):
                return None
            self._token += 1
            page.lease = Lease(self._token, board, holder, purpose, job)
            page.expires = self._clock() + LEASE_S
            self._active[self._token] = page.lease
            return page.lease

    def renew(self, leases: Sequence[Lease]) -> set[int]:
        """Extend leases by LEASE_S from now; the tokens of those still held."""
        with self._lock:
            held = [lease for lease in leases if self._holds(lease)]
            for lease in held:
                self._pages[lease.board].expires = self._clock() + LEASE_S
            return {lease.token for lease in held}

    def release(self, lease: Lease, usage: Usage) -> bool:
        """End a lease; False when it had been lost before."""
        with self._lock:
            if not self._holds(lease):
                return False
            page = self._pages[lease.board]
            self._end(page, "released", usage)
            page.usage = Usage(
                page.usage.trials + usage.trials,
                page.usage.busy_s + usage.busy_s,
                page.usage.timed_s + usage.timed_s,
            )
            return True

    def revoke(self, board: str, reason: str) -> None:
        """End whatever lease a board has."""
        with self._lock:
            if self._pages[board].lease is not None:
                self._end(self._pages[board], "revoked", Usage())
                self.history.append((board, "revoked", {"reason": reason}))

    def change(self, board: str, to: Callable[[Standing], Standing], kind: str) -> Standing:
        """Replace a board's standing, and keep ``kind`` in its history when it changed."""
        with self._lock:
            page = self._pages[board]
            before, page.standing = page.standing, to(page.standing)
            if page.standing != before:
                self.history.append((board, kind, {"reason": page.standing.reason}))
            return page.standing

    def checked(self, board: str, check: Check) -> None:
        """Keep a health check, and its time when it is the best of this code."""
        with self._lock:
            page = self._pages[board]
            page.last_check, page.checked = check, self._clock()
            self.history.append((board, "check", vars(check)))
            if check.problem or check.seconds is None:
                return
            if page.reference_s is None or check.artifact != page.reference_artifact:
                page.reference_s, page.reference_artifact = check.seconds, check.artifact
            page.reference_s = min(page.reference_s, check.seconds)

    def note(self, board: str, kind: str, detail: dict[str, Any]) -> None:
        """Keep anything else in the board's history."""
        with self._lock:
            self.history.append((board, kind, detail))

    def accepts(self, token: int) -> bool:
        """Whether results under this token count: 0, a lease that holds, or one that was released."""
        with self._lock:
            if token in self.ended:
                return self.ended[token][0] == "released"
            return token == 0 or (token in self._active and self._holds(self._active[token]))

    def _holds(self, lease: Lease) -> bool:
        page = self._pages[lease.board]
        return page.lease == lease and page.expires > self._clock()

    def _end(self, page: _Page, how: str, usage: Usage) -> None:
        assert page.lease is not None
        del self._active[page.lease.token]
        self.ended[page.lease.token] = (how, usage)
        page.lease = None

    def _entry(self, page: _Page) -> Entry:
        lease = page.lease if page.lease is not None and self._holds(page.lease) else None
        return Entry(
            standing=page.standing,
            lease=lease,
            expires=None if lease is None else datetime.fromtimestamp(page.expires, UTC),
            reference_s=page.reference_s,
            reference_artifact=page.reference_artifact,
            last_check=page.last_check,
            checked=None if page.checked is None else datetime.fromtimestamp(page.checked, UTC),
            usage=replace(page.usage),
        )
