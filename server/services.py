"""What the routes work with, made once by the application."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request

from server.boards.service import Boards
from server.db.database import Database
from server.engine import Engine
from server.events.base import Events
from server.fleet_file import FleetFile
from server.http.event_stream import Streams
from server.http.turns import Turns
from server.in_child import Nursery
from server.jobs.manager import JobManager
from server.jobs.service import Jobs
from server.metrics import Metrics
from server.models.service import Models
from server.remembered import Remembered
from server.settings import Settings
from server.targets.service import Targets
from server.workloads.schemas import Insight

READERS, READERS_EACH, READS_WAIT = 3, 2, 200
"""Models that are read at once, each of which may take gigabytes; those of one client; requests that may wait
for that."""
IMPORTS_WAIT = 200
"""Logs that may wait to be read, one at a time: they keep the interpreter busy, and the database."""
EXPORTS_WAIT = 200
"""Logs and tables that may wait to be begun; a part of one is made at a time."""
TABLES, TABLES_EACH = 4, 2
"""Tables that are in memory at once, of tens of megabytes each, and those of one client."""
REMEMBERED = 64
"""Explanations that are kept, and as many forecasts and insights."""
EXPLANATIONS_WAIT = 16
"""Requests that may wait for an explanation; one takes a second or two, a page asks for two."""


@dataclass(frozen=True)
class Services:
    """One of each."""

    settings: Settings
    db: Database
    engine: Engine
    metrics: Metrics
    events: Events
    targets: Targets
    models: Models
    nursery: Nursery
    """Where models are read and configs explained."""
    jobs: Jobs
    boards: Boards
    fleet: FleetFile
    manager: JobManager
    streams: Streams
    reading: Turns = field(default_factory=lambda: Turns(READS_WAIT, READERS, READERS_EACH))
    """Of those who have a model read."""
    importing: Turns = field(default_factory=lambda: Turns(IMPORTS_WAIT))
    """Of those who bring a log."""
    exporting: Turns = field(default_factory=lambda: Turns(EXPORTS_WAIT))
    """Of those who download a log or a table."""
    tables: Turns = field(default_factory=lambda: Turns(EXPORTS_WAIT, TABLES, TABLES_EACH))
    """Turns of clients that download a table, which is kept in memory until it is sent."""
    explanations: Remembered[dict[str, Any]] = field(default_factory=lambda: Remembered(REMEMBERED))
    forecasts: Remembered[list[float | None]] = field(default_factory=lambda: Remembered(REMEMBERED))
    insights: Remembered[Insight] = field(default_factory=lambda: Remembered(REMEMBERED))
    learning: Turns = field(default_factory=lambda: Turns(EXPLANATIONS_WAIT))
    """Of those who want to know what trials say, or what a model may take."""
    compiling: Turns = field(default_factory=lambda: Turns(EXPLANATIONS_WAIT))
    """Of those who have something compiled to be explained, on the coordinator's own cores."""


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Ctx = Annotated[Services, Depends(_services)]
