"""How long boards were there and in service: looked at now and then, kept by day."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.concurrency import run_in_threadpool

from server.boards.days import DAY_S
from server.db.database import Database
from server.db.insert import insert
from server.db.tables import BoardDayRow
from server.engine import Engine
from worker.fleet.status import BoardStatus

EVERY_S = 60.0
log = logging.getLogger(__name__)


def keep(db: Database, boards: Sequence[BoardStatus], seconds: float, now_s: float) -> None:
    """Add ``seconds`` that ended at ``now_s`` (since the epoch) to the day of each board: looked at, and
    in service where it was."""
    with db.write() as session:
        for board in boards:
            there_s = seconds if board.in_service else 0.0
            values = {"watched_s": seconds, "in_service_s": there_s}
            statement = insert(session, BoardDayRow).values(
                board=board.id,
                day=int(now_s // DAY_S),
                leases=0,
                leased_s=0.0,
                timed_s=0.0,
                trials=0,
                **values,
            )
            added = {name: getattr(BoardDayRow, name) + statement.excluded[name] for name in values}
            session.execute(statement.on_conflict_do_update(index_elements=["board", "day"], set_=added))


@asynccontextmanager
async def watching(db: Database, engine: Engine) -> AsyncIterator[None]:
    """Look at the boards every minute meanwhile."""

    async def work() -> None:
        before = time.monotonic()
        while True:
            await asyncio.sleep(EVERY_S)
            now = time.monotonic()
            try:
                # After a sleep of the machine nobody knows what was.
                await run_in_threadpool(
                    keep, db, engine.boards(), min(now - before, 2 * EVERY_S), time.time()
                )
            except Exception as error:  # the database may come back
                log.warning("what boards did could not be kept: %s", error)
            before = now

    task = asyncio.create_task(work(), name="presence")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])  # its thread still uses the database
