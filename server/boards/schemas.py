"""Boards as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict

from server import lengths
from server.http.lists import Items, Page
from server.http.times import InUtc
from worker.fleet.book import Purpose
from worker.fleet.states import Activity, Health

_BOARD: JsonDict = {
    "id": "pi-3",
    "target": "rpi4",
    "instruction_sets": ["NEON"],
    "clock": "wall",
    "threads": 4,
    "tags": ["lab"],
    "kind": "agent",
    "address": "10.0.0.13:9190",
    "activity": "measuring",
    "health": "good",
    "reason": "",
    "draining": False,
    "lease": {
        "holder": "coordinator/812/1795241032.41",
        "job": 12,
        "purpose": "trials",
        "token": 4711,
        "expires": "2026-11-21T06:04:12.5Z",
    },
    "utilisation": 0.83,
    "utilisation_total": 0.41,
    "trials": 1200,
    "leases": 310,
    "faults": 2,
    "busy_s": 640.5,
    "timed_s": 548.1,
    "reference_s": 0.00123,
    "best_reference_s": 0.00121,
    "drift": 1.017,
    "temperature_c": 48.3,
    "frequency_mhz": 1500.0,
    "checked": "2026-11-21T06:02:40.1Z",
    "enlisted": "2026-11-21T05:40:00.2Z",
    "last_seen": "2026-11-21T06:04:00.7Z",
}
_EVENT: JsonDict = {
    "id": 815,
    "at": "2026-11-21T06:02:40.1Z",
    "kind": "fault",
    "detail": {
        "health": "unknown",
        "reason": "the upload was cut",
        "failures": 1,
        "draining": False,
        "before": "good",
    },
}


class BoardLease(BaseModel):
    """Who has a board."""

    holder: str = Field(description="The coordinator: host, process id and its start time.")
    job: int | None = Field(description="The job whose trials it is for; null for a health check.")
    purpose: Purpose = Field(description="`trials` or `check`.")
    token: int = Field(description="The fencing token that results carry; grows with every lease.")
    expires: datetime = Field(description="When it ends unless renewed.")


class Board(BaseModel):
    """One device that can run candidates."""

    model_config = ConfigDict(json_schema_extra={"example": _BOARD})

    id: str = Field(description="Its name in the fleet.")
    target: str = Field(description="The kind of machine it is.")
    instruction_sets: list[str] = Field(description="What kernels may use there, in usual words.")
    clock: str = Field(description="`wall` or `simulated:...`; times of two clocks do not compare.")
    threads: int = Field(description="What a parallel kernel gets.")
    tags: list[str] = Field(description="What jobs may ask for.")
    kind: str = Field(description="What the fleet file calls its kind; empty where it does not say.")
    address: str = Field(description="Where it is, in words; empty on the coordinator's or worker's machine.")
    activity: Activity = Field(description="What it does.")
    health: Health = Field(description="How it is: only `good` ones get trials, `unknown` ones are checked.")
    reason: str = Field(description="Why it is not good, or why it is drained.")
    draining: bool = Field(description="Whether it goes out of service when its lease ends.")
    lease: BoardLease | None = Field(description="Who has it; null when nobody does.")
    utilisation: float | None = Field(
        description="Share of wall time inside the timer in the last 5 minutes, up to its present lease."
    )
    utilisation_total: float | None = Field(description="The same since it was enlisted.")
    trials: int = Field(description="Candidates measured.")
    leases: int = Field(description="Leases that ended well.")
    faults: int = Field(description="Infrastructure errors and failed health checks.")
    busy_s: float = Field(description="Seconds spent on trials.")
    timed_s: float = Field(description="Those of them inside the timer.")
    reference_s: float | None = Field(description="The reference kernel's time in the last health check.")
    best_reference_s: float | None = Field(description="Its best passed time by this clock and code.")
    drift: float | None = Field(description="The last time over the best one.")
    temperature_c: float | None = Field(description="At the last health check, where the board tells.")
    frequency_mhz: float | None = Field(description="At the last health check, where the board tells.")
    checked: datetime | None = Field(description="When its health was last checked.")
    enlisted: datetime = Field(description="When it was first seen.")
    last_seen: datetime | None = Field(description="When it last answered.")


class BoardList(Items[Board]):
    """All boards, those that are away too."""


class BoardEvent(BaseModel):
    """Something that happened to a board."""

    model_config = ConfigDict(json_schema_extra={"example": _EVENT})

    id: int = Field(description="Grows with time.")
    at: datetime = Field(description="When it happened.")
    kind: str = Field(
        description="`check`, `fault`, `drain`, `drained`, `park`, `return`, `retire`, `lie`, `withdraw`, "
        "`lease_expired`, `lease_revoked` and others."
    )
    detail: dict[str, Any] = Field(description="What else is known of it, by kind.")


class BoardHistory(Page[BoardEvent]):
    """What happened to a board, the newest first."""


Reason = Annotated[str, Field(min_length=1, max_length=500, pattern=lengths.SAID, examples=["fan replaced"])]


class Change(BaseModel):
    """An operator's reason, for the board's history."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason | None = Field(default=None, description="Why.")


class Parking(BaseModel):
    """Why a board is taken out of service at once."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason = Field(description="Why; it is shown wherever the board is.")


def _no_number(value: object) -> object:
    """0 is hardly meant to be the year 1970. Raises ValueError."""
    if isinstance(value, str | datetime | None):
        return value
    raise ValueError("give a time as a text, like 2026-11-21T06:02:40Z")


class FleetChange(BaseModel):
    """What became of the fleet when its file was read again: names of boards."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"added": ["pi-4"], "removed": [], "changed": ["pi-2"], "tokens": ["pi-1"]}]
        }
    )

    added: list[str] = Field(description="They start.")
    removed: list[str] = Field(description="They go once nobody has a lease of them.")
    changed: list[str] = Field(description="They start anew, once nobody has a lease of them.")
    tokens: list[str] = Field(description="They have other tokens and nothing else, at once.")


class Withdrawal(BaseModel):
    """From when on a board is not to be believed."""

    model_config = ConfigDict(extra="forbid")

    since: Annotated[Annotated[datetime, InUtc] | None, BeforeValidator(_no_number)] = Field(
        None,
        description="Take back what it measured from then on; by default from its last good check, or all "
        "with `good_too`.",
    )
    good_too: bool = Field(
        False, description="Allow `since` to be before its last good check: what may well be right goes, too."
    )


class Withdrawn(BaseModel):
    """What was taken back."""

    records: int = Field(description="How many records are errors of kind `withdrawn` now.", examples=[12])
    since: datetime = Field(description="From when on.", examples=["2026-11-21T06:02:40.1Z"])


CHECKS = 200
"""Most health checks of an answer."""


class Slot(BaseModel):
    """A stretch of time."""

    at: datetime = Field(description="When it began.")
    leased: float = Field(description="Share of it under a lease.", examples=[0.91])
    timing: float = Field(description="Share of it inside the timer.", examples=[0.42])
    trials: float = Field(description="Candidates measured; of a lease over several slots its share.")


class CheckPoint(BaseModel):
    """A health check that ran the reference kernel."""

    at: datetime = Field(description="When it was made.")
    seconds: float = Field(description="Time of the reference kernel.")
    drift: float | None = Field(description="Over the best of the present code; null for other code.")


class Day(BaseModel):
    """A day of a board, UTC."""

    at: datetime = Field(description="When it began.")
    leased: float = Field(description="Share of it under a lease; of today, of the part that is over.")
    timing: float = Field(description="Share of it inside the timer.")
    trials: int = Field(description="Candidates measured by leases that ended then.")
    faults: int = Field(description="Faults and failed health checks; known for 30 days.")


class BoardDays(Items[Day]):
    """A board's use by day, from the oldest on, without gaps; the last one is today."""


class BoardReport(BaseModel):
    """What a board did in the days of a report."""

    id: str = Field(description="The board.", examples=["pi-3"])
    target: str = Field(description="What it is.", examples=["rpi4"])
    availability: float | None = Field(
        description="Share of the time that a coordinator watched it in which it was there, healthy and not "
        "drained; null where none did.",
        examples=[0.993],
    )
    leased: float = Field(description="Share of the time under a lease.", examples=[0.61])
    timing: float = Field(description="Share of the time inside the timer.", examples=[0.37])
    trials: int = Field(description="Candidates measured.", examples=[8123])
    faults: int = Field(description="Faults and failed health checks.", examples=[2])


class FleetReport(BaseModel):
    """What the fleet did in some days, today among them."""

    since: datetime = Field(description="When the first of the days began, UTC.")
    boards: list[BoardReport] = Field(description="All boards, by name.")
    trials: int = Field(description="Trials of the jobs that were started then.", examples=[40210])
    lost: int = Field(
        description="Those of them that failed by the fault of the lab: a board that went away, an upload, a "
        "compiler that was killed.",
        examples=[3],
    )
    lost_share: float = Field(description="`lost` over `trials`.", examples=[0.00007])


class BoardActivity(BaseModel):
    """A board's use, and how steady it is."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "slots": [{"at": "2026-11-21T14:03:00Z", "leased": 0.91, "timing": 0.42, "trials": 7.5}],
                "checks": [{"at": "2026-11-21T14:03:11Z", "seconds": 0.00099, "drift": 1.004}],
            }
        }
    )

    slots: list[Slot] = Field(description="From the oldest on, without gaps.")
    checks: list[CheckPoint] = Field(description=f"Of 30 days, evenly thinned to {CHECKS}.")
