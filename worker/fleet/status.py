"""What a coordinator knows of a board: whom it can serve, what it does for whom, and how it is."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.target import Target
from worker.fleet.states import Activity, Health


@dataclass(frozen=True)
class BoardStatus:
    """A board as matching, the service and its users see it.

    ``reason`` says why its health is not good, why it drains, or why it is not there; ``job`` is whose trials
    it has now.
    """

    id: str
    target: Target
    threads: int
    tags: frozenset[str]
    activity: Activity
    health: Health
    draining: bool = False
    reason: str = ""
    job: int | None = None
    clock: str = "wall"

    @property
    def in_service(self) -> bool:
        """Whether it takes trials, now or when it is free."""
        return self.health is Health.GOOD and not self.draining and self.activity is not Activity.OFFLINE

    @property
    def may_serve(self) -> bool:
        """Whether it is worth waiting for: an operator who works on it means to bring it back."""
        if self.health is Health.MAINTENANCE:
            return True
        return self.activity is not Activity.OFFLINE and self.health in (Health.GOOD, Health.UNKNOWN)

    @property
    def free(self) -> bool:
        """Whether it takes trials now."""
        return self.in_service and self.activity is Activity.IDLE
