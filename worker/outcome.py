"""How a trial can end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class ErrorKind(StrEnum):
    """The closed list of ways a trial can fail."""

    CONSTRAINTS = "constraints"
    BUILD_TIMEOUT = "build_timeout"
    BUILD_ERROR = "build_error"
    BUILD_KILLED = "build_killed"
    UPLOAD_ERROR = "upload_error"
    RUN_TIMEOUT = "run_timeout"
    CRASH = "crash"
    WRONG_RESULT = "wrong_result"
    BOARD_LOST = "board_lost"
    POISON = "poison"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"

    @property
    def transient(self) -> bool:
        """Whether this says nothing about the candidate: another try may well succeed."""
        return self in _TRANSIENT

    @property
    def infrastructure(self) -> bool:
        """Whether the lab is at fault: a board that went away, an upload, a compiler that was killed."""
        return self in (ErrorKind.BUILD_KILLED, ErrorKind.UPLOAD_ERROR, ErrorKind.BOARD_LOST)


_TRANSIENT = (
    ErrorKind.BUILD_KILLED,
    ErrorKind.UPLOAD_ERROR,
    ErrorKind.BOARD_LOST,
    ErrorKind.CANCELLED,
    ErrorKind.WITHDRAWN,
)


@dataclass(frozen=True)
class Outcome:
    """What one trial led to: a cost, or one error kind with its message.

    ``cost_s`` is the median of ``repeats_s`` (seconds a call); ``spread`` is the interquartile range over
    the median; ``max_error`` the largest difference from float64 arithmetic relative to its largest value.
    ``build_s`` and ``measure_s`` are the wall time the trial took of a build worker and of the board;
    ``timed_s`` is the part of the latter that its timer ran, with warm-up and eviction of weights.
    ``counters`` are what a simulated board counted in the last timed repeat: cycles, instructions, loads,
    stores, l1_misses, l2_misses.
    ``temperature_c`` and ``frequency_mhz`` are the board's just after that, where it offers them.
    ``disturbed`` is whether too few repeats were left alone by the rest of the machine
    (``worker/measure/quiet.py``): then it may be faster than ``cost_s``.
    ``fault`` is what failed under the trial by no doing of its own, after which it was tried again.
    ``lied`` is whether its board said of it what cannot be.
    ``lease`` is the fencing token under which it was measured; 0 when that was under none. ``at`` is when it
    was heard of, in seconds since the epoch; 0 when nobody said.
    """

    cost_s: float | None = None
    repeats_s: tuple[float, ...] = ()
    spread: float | None = None
    max_error: float | None = None
    error: ErrorKind | None = None
    message: str = ""
    board: str = ""
    clock: str = "wall"
    cold: bool = True
    build_s: float = 0.0
    measure_s: float = 0.0
    timed_s: float = 0.0
    counters: dict[str, int] = field(default_factory=dict)
    temperature_c: float | None = None
    frequency_mhz: float | None = None
    disturbed: bool = False
    fault: str = ""
    lied: bool = False
    lease: int = 0
    at: float = 0.0
    toolchain: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is a cost."""
        return self.error is None


OnOutcome = Callable[[int, Outcome], None]
"""Gets an outcome with its place in the batch."""


@dataclass(frozen=True)
class Fact:
    """What a board said of itself, and under which lease and when, as in an Outcome."""

    value: Any
    board: str = ""
    lease: int = 0
    at: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What a call on the cores of a leased board returned, under which lease; or what went wrong."""

    result: Any = None
    lease: int = 0
    problem: str = ""
