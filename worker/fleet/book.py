"""The fleet's book: who has which board, how each is, what happened to it. The server keeps it in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from worker.fleet.states import Health, Standing

if TYPE_CHECKING:
    from kernels.target import Target


class Purpose(StrEnum):
    """What a lease is for: ``trials`` need a good board, ``check`` an unknown or good one."""

    TRIALS = "trials"
    CHECK = "check"


LIED, DISAGREES, RETURNED = "lie", "disagrees", "return"
"""Kinds of changes of a board's standing that are more than that."""
WITHDRAW = "withdraw"
"""An operator takes back what a board said."""
TAKES_BACK = (LIED, DISAGREES, WITHDRAW)
"""Entries of a board's history after which its word does not count any more."""


def allows(standing: Standing, purpose: Purpose) -> bool:
    """Whether a board of this standing may be leased for this purpose."""
    healths = (Health.GOOD,) if purpose is Purpose.TRIALS else (Health.GOOD, Health.UNKNOWN)
    return standing.health in healths and not standing.draining


@dataclass(frozen=True)
class Listing:
    """A board as its worker describes it: ``clock`` is its driver's, ``problem`` says why it is not alive,
    ``started_here`` whether its worker starts and restarts it. ``kind`` and ``where`` are the fleet file's
    kind of board and its address in words, empty where its worker does not say."""

    id: str
    target: Target
    clock: str
    threads: int
    tags: tuple[str, ...] = ()
    alive: bool = True
    problem: str = ""
    started_here: bool = False
    kind: str = ""
    where: str = ""


@dataclass(frozen=True)
class Lease:
    """The right to use a board. ``token`` grows with every lease: the fencing token that results carry."""

    token: int
    board: str
    holder: str
    purpose: Purpose
    job: int | None = None


@dataclass(frozen=True)
class Usage:
    """What a lease was used for: ``timed_s`` is wall time inside the timer, ``busy_s`` on trials in all."""

    trials: int = 0
    busy_s: float = 0.0
    timed_s: float = 0.0


@dataclass(frozen=True)
class Check:
    """One run of the reference kernel. ``problem`` is empty when result and time were right.

    ``artifact`` is the hash of the code that ran: times of different code are not compared.
    """

    seconds: float | None
    problem: str = ""
    artifact: str = ""
    temperature_c: float | None = None
    frequency_mhz: float | None = None


@dataclass(frozen=True)
class Entry:
    """What the book says of a board; ``reference_s`` is its best passed time of the present code.

    ``kin`` are the last known times of the reference kernel on all boards of its target and clock, itself
    among them, that were not caught at a lie: (board, artifact, seconds).
    """

    standing: Standing
    lease: Lease | None = None
    reference_s: float | None = None
    reference_artifact: str = ""
    kin: tuple[tuple[str, str, float], ...] = ()


class Book(Protocol):
    """What the dispatcher needs of a database. All methods are synchronous and are called in threads.

    Several coordinators may share one book. Every method is one transaction.
    """

    def enlist(self, boards: Sequence[Listing]) -> None:
        """Make boards known, or bring their facts up to date; what is known of their standing stays."""

    def entries(self) -> dict[str, Entry]:
        """All boards by id; a lease that is no obstacle to ``acquire`` is not shown."""

    def acquire(self, board: str, holder: str, purpose: Purpose, job: int | None) -> Lease | None:
        """Lease a board for a while; None when another holds it or its standing forbids it.

        An expired lease, or one of a holder that is known to be dead, is no obstacle: it ends as expired.
        """

    def renew(self, leases: Sequence[Lease]) -> set[int]:
        """Extend leases by as much from now; the tokens of those still held."""

    def release(self, lease: Lease, usage: Usage) -> bool:
        """End a lease; False when it had been lost before, so that nothing measured under it counts."""

    def revoke(self, board: str, reason: str) -> None:
        """End whatever lease a board has; results under its token are refused from now on."""

    def change(self, board: str, to: Callable[[Standing], Standing], kind: str) -> Standing:
        """Replace a board's standing, and keep ``kind`` with the reason in its history when it changed.

        What it has recorded is marked when it was caught at a lie (``LIED``, ``DISAGREES``), whatever its
        standing, and what it has said so far is not stored any more. Where an operator returns one that was
        faster than its best, that is its best from now on (``RETURNED``).
        """

    def checked(self, board: str, check: Check) -> None:
        """Keep a health check in the board's history."""
