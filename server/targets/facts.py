"""What is measured of a target before a job: peak, bandwidth, conversions between layouts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from sqlalchemy.exc import DBAPIError
from starlette.concurrency import run_in_threadpool

from server.boards.leases import recordable
from server.db.database import Database
from server.db.tables import BandwidthRow, PeakRow, RelayoutRow
from server.engine import Engine
from server.records import told
from tuner.log.relayouts import Relayouts, stored
from tuner.spec import JobSpec
from worker.demand import Demand
from worker.measure.relayout_time import VERSION
from worker.outcome import Fact

FACT_S = 60.0
"""How long measuring one of them may take."""
AGAIN_S = 86400.0
"""After this time a peak or a bandwidth is measured again."""

log = logging.getLogger(__name__)


class Facts:
    """Facts of targets, each by a number of threads and a clock; jobs go on without those that fail.

    Peak and bandwidth by the wall clock are measured again by the day's first job, and by the first after the
    server's start, and the larger figure stays: what else ran on the board can only have made it too small.
    Each belongs to the board that said it, and goes with what that board is not believed any more
    (``server/boards/withdrawal.py``).
    """

    def __init__(self, db: Database, engine: Engine) -> None:
        self._db, self._engine = db, engine
        self._measured: dict[tuple[str, tuple[str, int, str]], float] = {}
        """When this server has measured what, by the monotonic clock."""

    async def learn(self, spec: JobSpec, cancelled: asyncio.Event) -> None:
        """Know what the job shows or a build from it needs."""
        await self._once(spec, cancelled, PeakRow, self._engine.peak_gflops)
        await self._once(spec, cancelled, BandwidthRow, self._engine.bandwidth_gbs)
        if spec.any_layout:
            await self._once(spec, cancelled, RelayoutRow, self._relayouts)

    async def _relayouts(self, demand: Demand) -> Fact:
        fact = await self._engine.relayout_seconds(demand)
        return replace(fact, value=stored(fact.value))

    async def _once(
        self,
        spec: JobSpec,
        cancelled: asyncio.Event,
        table: type[told.FactRow],
        measure: Callable[[Demand], Coroutine[Any, Any, Fact]],
    ) -> None:
        demand = Demand(spec.demand.target, spec.demand.threads, clock=spec.demand.clock)
        key, what = (demand.target.key, demand.threads, demand.clock), table.__tablename__
        try:
            known = await run_in_threadpool(self._known, table, key)
            old = time.monotonic() - self._measured.get((what, key), -AGAIN_S) >= AGAIN_S
            again = old and table is not RelayoutRow and demand.clock == "wall"
            if cancelled.is_set() or (known is not None and not again):
                return
        except DBAPIError as error:  # tuning does not depend on it
            log.warning("%s of target %s are not known: %s", what, demand.target.name, error)
            return
        work = asyncio.ensure_future(measure(demand))
        watch = asyncio.ensure_future(cancelled.wait())
        try:
            await asyncio.wait([work, watch], timeout=FACT_S, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await run_in_threadpool(self._save, table, demand, work.result())
                self._measured[what, key] = time.monotonic()
            elif not cancelled.is_set():
                log.warning("%s of target %s were not measured in %g s", what, demand.target.name, FACT_S)
        except Exception as error:  # whatever it was, tuning does not depend on it
            log.warning("%s of target %s could not be measured: %s", what, demand.target.name, error)
        finally:
            work.cancel()
            watch.cancel()

    def _known(self, table: type[told.FactRow], key: told.Key) -> Any:
        """What is stored, or None."""
        with self._db.read() as session:
            known = told.value(session, table, key)
        return None if isinstance(known, Relayouts) and known.version != VERSION else known

    def _save(self, table: type[told.FactRow], demand: Demand, fact: Fact) -> None:
        """Keep what a board said while its lease held, unless a larger figure is known."""
        key = (demand.target.key, demand.threads, demand.clock)
        told.checked(fact.value, table, demand.target, demand.threads, demand.clock)
        with self._db.write() as session:
            if not recordable(session, [(fact.lease, fact.at)], time.time()):
                raise ValueError(f"board {fact.board} was taken away meanwhile")
            known = None if table is RelayoutRow else told.value(session, table, key)
            if known is None or fact.value > known:
                said = {told.COLUMNS[table]: fact.value, "board": fact.board}
                session.merge(table(target_key=key[0], threads=key[1], clock=key[2], **said))
