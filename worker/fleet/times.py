"""Deadlines and periods of a fleet, handed in from above: an operator may change them, and tests do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict


@dataclass(frozen=True)
class FleetTimes:
    """All in seconds but ``drift_limit`` and ``kin_limit``."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    lease_s: float = 20.0
    """How long a lease holds without being renewed: a dead holder's board is free after that."""
    renew_s: float = 5.0
    """How often leases are renewed."""
    tick_s: float = 1.0
    """How often the dispatcher looks what is due."""
    patience_s: float = 60.0
    """How long a request waits while no board that fits can be expected to serve it."""
    job_patience_s: float = math.inf
    """The same for the trials of jobs, which nobody waits for: a board may be away for an hour."""
    enlist_s: float = 30.0
    """How often the book is told of boards of which nothing has changed."""
    refresh_s: float = 2.0
    """How often the workers are asked for their boards."""
    answer_s: float = 5.0
    """A worker that says nothing for so long is passed over."""
    builder_s: float = math.inf
    """How long builds wait while there is no worker that builds: one may be started again."""
    stop_s: float = 15.0
    """What was told to stop and has not after this time is given up."""
    late_s: float = 20.0
    """How much later than its deadline something beside a board may end, the wait for the board included."""
    retry_s: float = 5.0
    """How long a board that others run is left alone when it could not be set up."""
    check_every_s: float = 60.0
    """Busy time after which a good board's clock is compared with its reference again."""
    check_limit_s: float = 300.0
    """A health check that takes longer has failed."""
    check_backoff_s: tuple[float, ...] = (2.0, 5.0)
    """Pauses after the first failed health check, the second, and so on, the last after all others."""
    try_again_s: tuple[float, float] = (60.0, 3600.0)
    """How long a board that this service starts is left alone when it turned bad: at first, at the most."""
    repair_absent_s: float = 120.0
    """A board that has been away for so long gets its operator's repair, if it has one."""
    drift_limit: float = 2.0
    """So many times its best known time may the reference kernel take on a wall-clock board."""
    kin_limit: float = 3.0
    """So many times may wall-clock boards of one target differ, and one be faster than its best."""


USUAL = FleetTimes()
