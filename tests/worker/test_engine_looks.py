"""What an engine makes of the answers of its workers, which here are scripted."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kernels.target import CATALOGUE
from worker.engine.engine import Engine
from worker.fleet.book import Listing
from worker.fleet.fleet_file import Fleet

BOARD = Listing("pi", CATALOGUE["rpi4"], "wall", 1)


class SlowWorkers:
    """The first answer takes until ``go``, and is as of when it was asked for."""

    away = ""

    def __init__(self) -> None:
        self.boards, self.go, self.asked = [BOARD], asyncio.Event(), asyncio.Event()

    async def listings(self) -> list[Listing]:
        answer = [*self.boards]
        if not self.asked.is_set():
            self.asked.set()
            await self.go.wait()
        return answer


async def test_a_look_that_began_before_brings_no_board_back_that_is_gone(tmp_path: Path) -> None:
    engine = Engine(tmp_path, boards=Fleet(()))
    engine._dask = workers = SlowWorkers()  # type: ignore[assignment]  # what is asked of it
    look = asyncio.create_task(engine.refresh())
    await workers.asked.wait()
    workers.boards = []
    gone = asyncio.create_task(engine._forget("pi"))
    await asyncio.sleep(0.05)
    workers.go.set()
    await asyncio.gather(look, gone)
    assert engine.boards() == []
    await engine.dispatcher.close()
