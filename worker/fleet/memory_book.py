"""The fleet's book without a database: for tests, benches and an engine that nobody shares."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from worker.fleet.book import Check, Entry, Lease, Listing, Purpose, Usage, allows
from worker.fleet.states import Standing
from worker.fleet.times import USUAL


@dataclass
class _Row:
    """What the book says of a board. ``expires`` is in seconds of the book's clock."""

    standing: Standing = field(default_factory=Standing)
    lease: Lease | None = None
    expires: float = 0.0
    reference_s: float | None = None
    reference_artifact: str = ""


class MemoryBook:
    """A ``Book`` in memory, safe for several threads. ``clock`` is in seconds since the epoch.

    ``history`` holds (board, kind, detail) of everything that happened; ``ended`` each lease that ended, by
    its token: how (``released``, ``expired``, ``revoked``) and what it was used for.
    """

    def __init__(self, clock: Callable[[], float] = time.time, *, lease_s: float = USUAL.lease_s) -> None:
        self._clock, self._lease_s = clock, lease_s
        self._rows: dict[str, _Row] = {}
        self._lock = threading.Lock()
        self._token = 0
        self._active: dict[int, Lease] = {}
        self.history: list[tuple[str, str, dict[str, Any]]] = []
        self.ended: dict[int, tuple[str, Usage]] = {}

    def enlist(self, boards: Sequence[Listing]) -> None:
        """Make boards known; what is known of their standing stays."""
        with self._lock:
            for board in boards:
                self._rows.setdefault(board.id, _Row())

    def entries(self) -> dict[str, Entry]:
        """All boards by id; a lease that was lost is none."""
        with self._lock:
            return {id: self._entry(row) for id, row in self._rows.items()}

    def acquire(self, board: str, holder: str, purpose: Purpose, job: int | None) -> Lease | None:
        """Lease a board; None when another holds it or its standing forbids it."""
        with self._lock:
            row = self._rows[board]
            if row.lease is not None and row.expires <= self._clock():
                self._end(row, "expired", Usage())
            if row.lease is not None or not allows(row.standing, purpose):
                return None
            self._token += 1
            row.lease = Lease(self._token, board, holder, purpose, job)
            row.expires = self._clock() + self._lease_s
            self._active[self._token] = row.lease
            return row.lease

    def renew(self, leases: Sequence[Lease]) -> set[int]:
        """Extend leases from now; the tokens of those still held."""
        with self._lock:
            held = [lease for lease in leases if self._holds(lease)]
            for lease in held:
                self._rows[lease.board].expires = self._clock() + self._lease_s
            return {lease.token for lease in held}

    def release(self, lease: Lease, usage: Usage) -> bool:
        """End a lease; False when it had been lost before."""
        with self._lock:
            if not self._holds(lease):
                return False
            self._end(self._rows[lease.board], "released", usage)
            return True

    def revoke(self, board: str, reason: str) -> None:
        """End whatever lease a board has."""
        with self._lock:
            if self._rows[board].lease is not None:
                self._end(self._rows[board], "revoked", Usage())
                self.history.append((board, "revoked", {"reason": reason}))

    def change(self, board: str, to: Callable[[Standing], Standing], kind: str) -> Standing:
        """Replace a board's standing, and keep ``kind`` in its history when it changed."""
        with self._lock:
            row = self._rows[board]
            before, row.standing = row.standing, to(row.standing)
            if row.standing != before:
                self.history.append((board, kind, {"reason": row.standing.reason}))
            return row.standing

    def checked(self, board: str, check: Check) -> None:
        """Keep a health check, and its time when it is the best of this code."""
        with self._lock:
            row = self._rows[board]
            self.history.append((board, "check", vars(check)))
            if check.problem or check.seconds is None:
                return
            if row.reference_s is None or check.artifact != row.reference_artifact:
                row.reference_s, row.reference_artifact = check.seconds, check.artifact
            row.reference_s = min(row.reference_s, check.seconds)

    def accepts(self, token: int) -> bool:
        """Whether results under this token count: 0, a lease that holds, or one that was released."""
        with self._lock:
            if token in self.ended:
                return self.ended[token][0] == "released"
            return token == 0 or (token in self._active and self._holds(self._active[token]))

    def _holds(self, lease: Lease) -> bool:
        row = self._rows[lease.board]
        return row.lease == lease and row.expires > self._clock()

    def _end(self, row: _Row, how: str, usage: Usage) -> None:
        assert row.lease is not None
        del self._active[row.lease.token]
        self.ended[row.lease.token] = (how, usage)
        row.lease = None

    def _entry(self, row: _Row) -> Entry:
        lease = row.lease if row.lease is not None and self._holds(row.lease) else None
        return Entry(row.standing, lease, row.reference_s, row.reference_artifact)
