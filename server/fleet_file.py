"""Reading the fleet file again while its boards work."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from starlette.concurrency import run_in_threadpool

from server.boards.schemas import FleetChange
from server.engine import Engine
from server.http.problems import Problem
from server.settings import Settings
from server.targets.service import Targets
from worker.engine.cluster import EngineError
from worker.fleet.drivers.base import BoardError
from worker.fleet.fleet_file import FleetError, read_fleet


class FleetFile:
    """The fleet file of the settings, and what is made of it."""

    def __init__(self, settings: Settings, engine: Engine, targets: Targets) -> None:
        self._path, self._engine, self._targets = settings.fleet, engine, targets
        self._turn = asyncio.Lock()

    async def reload(self) -> FleetChange:
        """Read the file and its tokens again; a 409 problem where it cannot be so, and then all stays."""
        if self._path is None:
            named = "the boards are those of TILEFLEET_BOARDS"
            raise Problem(409, f"there is no fleet file, {named}: start with --fleet FILE")
        async with self._turn:
            try:
                fleet = await run_in_threadpool(read_fleet, self._path.expanduser())
                changes = await self._engine.reload(fleet)
            except (FleetError, EngineError, BoardError) as error:
                raise Problem(409, f"the fleet stays as it was: {error}") from None
            self._targets.take(fleet.targets)
        return FleetChange(**asdict(changes))
