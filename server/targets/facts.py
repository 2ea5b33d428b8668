"""What is measured of a target before a job: peak, bandwidth, conversions between layouts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from sqlalchemy.exc import DBAPIError
from starlette.concurrency import run_in_threadpool

from server.db.database import Database
from server.db.tables import BandwidthRow, PeakRow, RelayoutRow
from server.engine import Engine
from tuner.log.relayouts import is_current, stored
from tuner.spec import JobSpec
from worker.demand import Demand

FACT_S = 60.0
"""How long measuring one of them may take."""
AGAIN_S = 86400.0
"""After this time a peak or a bandwidth is measured again."""

Row = PeakRow | BandwidthRow | RelayoutRow
log = logging.getLogger(__name__)


class Facts:
    """Facts of targets, each by a number of threads and a clock; jobs go on without those that fail.

    Peak and bandwidth by the wall clock are measured again by the day's first job, and by the first after the
    server's start, and the larger figure stays: what else ran on the board can only have made it too small.
    """

    def __init__(self, db: Database, engine: Engine) -> None:
        self._db, self._engine = db, engine
        self._measured: dict[tuple[str, tuple[str, int, str]], float] = {}
        """When this server has measured what, by the monotonic clock."""

    async def learn(self, spec: JobSpec, cancelled: asyncio.Event) -> None:
        """Know what the job shows or a build from it needs."""
        await self._once(spec, cancelled, PeakRow, "gflops", self._engine.peak_gflops)
        await self._once(spec, cancelled, BandwidthRow, "gbs", self._engine.bandwidth_gbs)
        if spec.any_layout:
            await self._once(spec, cancelled, RelayoutRow, "document", self._relayouts)

    async def _relayouts(self, demand: Demand) -> dict[str, Any]:
        return stored(await self._engine.relayout_seconds(demand))

    async def _once(
        self,
        spec: JobSpec,
        cancelled: asyncio.Event,
        table: type[Row],
        column: str,
        measure: Callable[..., Coroutine[Any, Any, Any]],
    ) -> None:
        demand = Demand(spec.demand.target, spec.demand.threads, clock=spec.demand.clock)
        key, what = (demand.target.key, demand.threads, demand.clock), table.__tablename__
        try:
            known = await run_in_threadpool(self._known, table, key, column)
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
                found = work.result() if known is None else max(known, work.result())
                row = table(target_key=key[0], threads=key[1], clock=key[2], **{column: found})
                await run_in_threadpool(self._save, row)
                self._measured[what, key] = time.monotonic()
            elif not cancelled.is_set():
                log.warning("%s of target %s were not measured in %g s", what, demand.target.name, FACT_S)
        except Exception as error:  # whatever it was, tuning does not depend on it
            log.warning("%s of target %s could not be measured: %s", what, demand.target.name, error)
        finally:
            work.cancel()
            watch.cancel()

    def _known(self, table: type[Row], key: tuple[str, int, str], column: str) -> Any:
        """What is stored, or None."""
        with self._db.read() as session:
            row = session.get(table, key)
            outdated = isinstance(row, RelayoutRow) and not is_current(row.document)
            return None if row is None or outdated else getattr(row, column)

    def _save(self, row: Row) -> None:
        with self._db.write() as session:
            session.merge(row)
