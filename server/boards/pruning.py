"""Forgetting old leases and old history."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from sqlalchemy import delete, select
from starlette.concurrency import run_in_threadpool

from server.boards.days import DAY_S, keep_use
from server.boards.leases import LeaseState
from server.db.database import Database
from server.db.tables import BoardDayRow, BoardEventRow, BoardRow, LeaseRow

KEEP_S = 30 * DAY_S
KEEP_RELEASED_S = DAY_S
"""Of leases that ended well, of which there are hundreds a second in a large fleet. It is also how long
after its lease a result may be recorded."""
KEEP_DAYS_S = 366 * DAY_S
"""Of what a board was used for by day."""
EVERY_S = 3600.0
log = logging.getLogger(__name__)


def prune(db: Database, now_s: float) -> int:
    """Forget what is old at ``now_s`` (seconds since the epoch); how many rows that were.

    One short transaction a board, so that nobody waits long for a lease.
    """
    with db.read() as session:
        boards = session.execute(select(BoardRow.id)).scalars().all()
    forgotten = 0
    old = datetime.fromtimestamp(now_s - KEEP_S, UTC)
    for board in boards:
        mine, days = delete(LeaseRow).where(LeaseRow.board == board), delete(BoardDayRow)
        well = (
            LeaseRow.board == board,
            LeaseRow.ended < now_s - KEEP_RELEASED_S,
            LeaseRow.state == LeaseState.RELEASED.value,
        )
        with db.write() as session:
            # Another coordinator prunes, too: what both would sum must be counted once.
            session.get(BoardRow, board, with_for_update=True)
            keep_use(session, board, *well)
            forgotten += session.connection().execute(delete(LeaseRow).where(*well)).rowcount
        statements = (
            mine.where(LeaseRow.ended < now_s - KEEP_S),
            days.where(BoardDayRow.board == board, BoardDayRow.day < (now_s - KEEP_DAYS_S) // DAY_S),
            delete(BoardEventRow).where(BoardEventRow.board == board, BoardEventRow.at < old),
        )
        for statement in statements:
            with db.write() as session:
                forgotten += session.connection().execute(statement).rowcount
    return forgotten


@asynccontextmanager
async def pruning(db: Database) -> AsyncIterator[None]:
    """Prune every hour meanwhile."""

    async def work() -> None:
        while True:
            try:
                await run_in_threadpool(prune, db, time.time())
            except Exception as error:  # the database may come back
                log.warning("old leases could not be forgotten: %s", error)
            await asyncio.sleep(EVERY_S)

    task = asyncio.create_task(work(), name="prune")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])  # its thread still uses the database
