"""What a job demands of the fleet: which boards will do, and how urgent it is."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.target import Target


@dataclass(frozen=True)
class Demand:
    """Which boards will do, for whom, and who comes first.

    A board must have ``target``, at least ``threads`` threads and all ``tags``, and time by ``clock``, unless
    that is empty: times of different clocks are never compared. ``priority`` is the job's, higher first.
    Within one priority ``turn``, the virtual start by fair queueing, decides, lower first. Where ``board``
    is not empty, only the one of that name will do.
    """

    target: Target
    threads: int = 1
    tags: frozenset[str] = frozenset()
    clock: str = ""
    job: int | None = None
    priority: int = 0
    turn: float = 0.0
    board: str = ""

    @property
    def wants(self) -> tuple[str, int, frozenset[str], str, str]:
        """What decides which boards fit."""
        return (self.target.key, self.threads, self.tags, self.clock, self.board)
