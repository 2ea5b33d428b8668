"""Runs jobs: one asyncio task each; the others wait in the queue."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from server import ownership
from server.db.database import Database
from server.db.tables import JobRow
from server.engine import Engine
from server.events.base import END, Events
from server.in_child import Nursery
from server.jobs import slots
from server.jobs.incumbents import with_incumbents
from server.jobs.orphans import Orphans
from server.jobs.queue import Queue
from server.jobs.schemas import Waiting
from server.jobs.store import SqlStore
from server.jobs.views import Live
from server.targets.facts import Facts
from tuner.job.fairness import VirtualTime
from tuner.job.patience import patiently
from tuner.job.reserve import Deliveries
from tuner.job.runner import run_job
from tuner.spec import JobSpec
from tuner.states import JobState, Phase, TakenOver
from worker.build.space import full_disk
from worker.demand import Demand
from worker.engine.asyncio_tasks import end

log = logging.getLogger(__name__)


@dataclass
class _Entry:
    """A job of this process."""

    spec: JobSpec
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    started: float = field(default_factory=time.monotonic)
    progress: dict[str, Any] = field(default_factory=dict)


class JobManager:
    """The jobs of this process. Its methods belong to the event loop's thread."""

    def __init__(
        self,
        db: Database,
        store: SqlStore,
        engine: Engine,
        events: Events,
        queue: Queue,
        orphans: Orphans,
        folder: Path,
        nursery: Nursery,
    ) -> None:
        """``folder`` is where the engine keeps what it builds; ``nursery`` plans untuned models."""
        self._folder, self._nursery = folder, nursery
        self._store, self._engine, self._events = store, engine, events
        self._queue, self._orphans = queue, orphans
        self._facts = Facts(db, engine)
        self._fair, self._deliveries = VirtualTime(), Deliveries()
        self._running: dict[int, tuple[_Entry, asyncio.Task[None]]] = {}
        self._beating: asyncio.Task[None] | None = None
        self._claiming: asyncio.Task[None] | None = None
        self._called, self._closed = asyncio.Event(), False
        self._there: frozenset[str] = frozenset()
        """The boards that were in service at the last look."""
        self._told = ""
        self._thread = ThreadPoolExecutor(1, "signs of life")

    async def start(self) -> None:
        """Put the jobs of dead processes back into the queue, and begin to run what waits there."""
        await self._look()
        self._beating = asyncio.create_task(self._beat())
        self._claiming = asyncio.create_task(self._claim())
        self.call()

    async def close(self) -> None:
        """Hand every job back: what runs waits again, for this or another coordinator."""
        self._closed = True
        self.call()
        if self._claiming is not None:
            await asyncio.wait([self._claiming])  # what it is claiming now is handed back, too
        if self._beating is not None:
            await end(self._beating)
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._thread.shutdown(wait=False)
        try:
            await run_in_threadpool(self._orphans.leave)
        except Exception as error:  # whoever looks next finds that this process is no more
            log.warning("jobs could not be handed back: %s", error)

    def submit(self, jobs: Sequence[int], demand: Demand | None = None) -> None:
        """Tell of jobs that were put into the queue, and run them as soon as there is room; ``demand`` is
        what one of them wants."""
        for job_id in jobs:
            self._events.begin(job_id)
            self._events.publish(job_id, "state", {"state": JobState.QUEUED.value, "message": ""})
        if demand is None or slots.free(demand, self._engine.boards(), self.running()):
            self.call()

    def call(self) -> None:
        """See soon whether a job may start."""
        self._called.set()

    def cancel(self, job_id: int) -> bool:
        """Stop a job of this process, also while no row can say so; False when it has none of this id."""
        if job_id not in self._running:
            return False
        cancelled = self._running[job_id][0].cancelled
        if not cancelled.is_set():
            self._events.publish(job_id, "state", {"state": JobState.CANCELLING.value, "message": ""})
            cancelled.set()
        return True

    def running(self) -> dict[int, Demand]:
        """What the jobs that run here want, by their numbers; any thread may ask."""
        return {job_id: entry.spec.demand for job_id, (entry, _) in [*self._running.items()]}

    def why_queued(self, session: Session, rows: Sequence[JobRow]) -> dict[int, Waiting]:
        """The place of each of ``rows`` that is queued, and why it waits; any thread may ask."""
        return self._queue.why(session, rows, self.running())

    def first_look_s(self, row: JobRow, layers: int) -> float | None:
        """About how long a first result of a job's model, of so many distinct layers, takes: as earlier
        builds of this process did. None where there was none. Any thread may ask."""
        kind = row.target_key, row.clock, row.threads
        return self._deliveries.first_look_s(row.model_hash or "", kind, layers)

    def live(self, job_id: int) -> Live | None:
        """What the running job says of itself, or None when it does not run here."""
        if job_id not in self._running:
            return None
        entry = self._running[job_id][0]
        elapsed = entry.spec.elapsed_s + time.monotonic() - entry.started
        progress = entry.progress
        shares = {each["task"]: each for each in progress.get("shares", ())}
        rate, eta_s, phase = (progress.get(name) for name in ("trials_per_s", "eta_s", "phase"))
        waiting, cancelling = self._waiting(job_id), entry.cancelled.is_set()
        return Live(
            elapsed, rate, eta_s, phase and Phase(phase), waiting, shares, cancelling, self._trouble()
        )

    def _trouble(self) -> str:
        """What keeps all jobs waiting; empty when nothing does."""
        if self._store.away:
            return f"{self._store.away}; jobs go on when it is mended"
        if self._engine.away:
            return f"{self._engine.away}; jobs go on when it does"
        return full_disk(self._folder)

    def _waiting(self, job_id: int) -> Waiting | None:
        """Why the job waits for a board, unless some board works for it."""
        if any(board.job == job_id for board in self._engine.boards()):
            return None
        places = (place for place in self._engine.dispatcher.waiting() if place.request.demand.job == job_id)
        place = next(places, None)
        return Waiting(position=place.position, reason=place.reason) if place else None

    async def _claim(self) -> None:
        """Start what may run, whenever something has changed."""
        while not self._closed:
            await self._called.wait()
            self._called.clear()
            if self._closed:
                continue
            try:
                claimed, failed = await run_in_threadpool(self._queue.claim, self.running())
            except Exception as error:  # the database may come back
                log.warning("no job could be started: %s", error)
                continue
            for spec in claimed:
                entry = _Entry(spec)
                task = asyncio.create_task(self._run(entry), name=f"job {spec.id}")
                self._running[spec.id] = (entry, task)
            for job_id, message in failed.items():
                self.tell_end(job_id, JobState.FAILED, message)

    async def _run(self, entry: _Entry) -> None:
        spec = entry.spec
        try:
            if spec.deadline is None or spec.deadline > time.time():
                await self._facts.learn(spec, entry.cancelled)
            entry.started = time.monotonic()
            publish = self._publisher(entry)
            spec = await run_in_threadpool(with_incumbents, spec, self._nursery, entry.cancelled)
            # What that took is of the job's seconds.
            spent = time.monotonic() - entry.started
            spec = replace(spec, elapsed_s=spec.elapsed_s + spent, planned_s=spent)
            await patiently(self._store.foresee, spec)
            shared = self._fair, self._deliveries
            await run_job(spec, self._engine, self._store, publish, entry.cancelled, *shared)
        except Exception as error:
            log.exception("job %d could not run", spec.id)
            await self._fail(spec.id, f"{type(error).__name__}: {error}")
        finally:
            del self._running[spec.id]
            self.call()

    def _publisher(self, entry: _Entry) -> Callable[[str, dict[str, Any]], None]:
        def publish(name: str, data: dict[str, Any]) -> None:
            if name == "progress":
                entry.progress = data
            self._events.publish(entry.spec.id, name, data)

        return publish

    async def _fail(self, job_id: int, message: str) -> None:
        try:
            await patiently(self._store.job_state, job_id, JobState.FAILED, message)
        except TakenOver as reason:
            log.warning("that job %d failed cannot be kept: %s", job_id, reason)
        else:
            self.tell_end(job_id, JobState.FAILED, message)

    def tell_end(self, job_id: int, state: JobState, message: str = "") -> None:
        """Tell those who follow a job that it is over."""
        self._events.publish(job_id, "state", {"state": state.value, "message": message})
        self._events.publish(job_id, END, {"state": state.value})

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(ownership.BEAT_S)
            try:
                await self._look()
                await self._engine.refresh()
            except Exception as error:  # database and scheduler may come back
                log.warning("no sign of life could be given: %s", error)
            self._tell_trouble()
            self.call()  # others submit jobs, too

    def board_changed(self) -> None:
        """See whether a job may start since a board has come into service."""
        there = slots.here(self._engine.boards())
        if there - self._there:
            self.call()
        self._there = there

    def _tell_trouble(self) -> None:
        """Tell those who follow jobs why nothing happens, and when it does again."""
        trouble = self._trouble()
        if trouble != self._told:
            for job_id, (entry, _) in self._running.items():
                state = JobState.CANCELLING if entry.cancelled.is_set() else JobState.RUNNING
                self._events.publish(job_id, "state", {"state": state.value, "message": trouble})
        self._told = trouble

    async def _look(self) -> None:
        """Give a sign of life, take up what nobody runs, and let go of what another process runs."""
        mine = {*self._running}
        # A thread of its own: requests may have all others.
        news = await asyncio.get_running_loop().run_in_executor(self._thread, self._orphans.look, mine)
        for job_id, state in news.ended.items():
            self.tell_end(job_id, state)
        for job_id in news.lost:
            log.warning("job %d is this process's no more", job_id)
            if job_id in self._running:
                self._running[job_id][1].cancel()
        for job_id in news.cancelled:
            self.cancel(job_id)
        for job_id in news.taken:
            log.warning("job %d waits again: the process that ran it ended", job_id)
