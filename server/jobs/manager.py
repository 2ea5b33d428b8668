"""Runs jobs: one asyncio task each, at most so many at once, the others wait their turn."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

from server import ownership
from server.db.database import Database
from server.engine import Engine
from server.events.base import END, Events
from server.jobs.orphans import Orphans
from server.jobs.schemas import Waiting
from server.jobs.store import SqlStore
from server.jobs.views import Live
from server.targets.facts import Facts
from tuner.job.fairness import VirtualTime
from tuner.job.patience import patiently
from tuner.job.runner import run_job
from tuner.spec import JobSpec
from tuner.states import JobState, Phase, StoreAway, TakenOver
from worker.build.space import full_disk
from worker.engine.asyncio_tasks import end

MAX_RUNNING = 16
SOON_S = 5.0
"""How long who cancels a job waits for its end."""

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
        orphans: Orphans,
        folder: Path,
    ) -> None:
        """``folder`` is where the engine keeps what it builds."""
        self._folder = folder
        self._store, self._engine, self._events, self._orphans = store, engine, events, orphans
        self._facts = Facts(db, engine)
        self._fair = VirtualTime()
        self._queued: dict[int, _Entry] = {}
        self._running: dict[int, tuple[_Entry, asyncio.Task[None]]] = {}
        self._beating: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._told = ""
        self._thread = ThreadPoolExecutor(1, "signs of life")

    async def start(self) -> None:
        """Take up the jobs of dead processes, and begin to give signs of life."""
        await self._look()
        self._beating = asyncio.create_task(self._beat())

    async def close(self) -> None:
        """Leave every job ``interrupted``."""
        if self._beating is not None:
            await end(self._beating)
        self._thread.shutdown(wait=False)
        for job_id in list(self._queued):
            self._queued.pop(job_id)
            await self._end(job_id, JobState.INTERRUPTED, wait=False)
        for ending in self._ending:
            ending.cancel()
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def submit(self, spec: JobSpec, *, goes_on: bool = False) -> None:
        """Run a job whose row is ``queued`` and ours, as soon as there is room.

        With ``goes_on`` another process began it: what it told is still true.
        """
        if not goes_on:
            self._events.begin(spec.id)
        self._events.publish(spec.id, "state", {"state": JobState.QUEUED.value, "message": ""})
        self._queued[spec.id] = _Entry(spec)
        self._start_next()

    async def cancel(self, job_id: int) -> bool:
        """Stop a job of this process, also while no row can say so; False when it has none of this id."""
        if job_id in self._queued:
            del self._queued[job_id]
            ending = asyncio.create_task(self._end(job_id, JobState.CANCELLED))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            await asyncio.wait([ending], timeout=SOON_S)
            return True
        if job_id not in self._running:
            return False
        cancelled = self._running[job_id][0].cancelled
        if not cancelled.is_set():
            self._events.publish(job_id, "state", {"state": JobState.CANCELLING.value, "message": ""})
            cancelled.set()
        return True

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

    def _start_next(self) -> None:
        # A job that was resumed at once may still be on its way out of its former run.
        waiting = [job_id for job_id in self._queued if job_id not in self._running]
        waiting.sort(key=lambda job_id: -self._queued[job_id].spec.demand.priority)  # else the oldest first
        for job_id in waiting[: MAX_RUNNING - len(self._running)]:
            entry = self._queued.pop(job_id)
            self._running[job_id] = (entry, asyncio.create_task(self._run(entry), name=f"job {job_id}"))

    async def _run(self, entry: _Entry) -> None:
        spec = entry.spec
        try:
            try:
                await self._facts.learn(spec, entry.cancelled)
            except asyncio.CancelledError:
                await self._end(spec.id, JobState.INTERRUPTED, wait=False)
                raise
            entry.started = time.monotonic()
            publish = self._publisher(entry)
            await run_job(spec, self._engine, self._store, publish, entry.cancelled, self._fair)
        except Exception as error:
            log.exception("job %d could not run", spec.id)
            await self._end(spec.id, JobState.FAILED, f"{type(error).__name__}: {error}")
        finally:
            del self._running[spec.id]
            self._start_next()

    def _publisher(self, entry: _Entry) -> Callable[[str, dict[str, Any]], None]:
        def publish(name: str, data: dict[str, Any]) -> None:
            if name == "progress":
                entry.progress = data
            self._events.publish(entry.spec.id, name, data)

        return publish

    async def _end(self, job_id: int, state: JobState, message: str = "", *, wait: bool = True) -> None:
        """End a job that does not run; with ``wait`` not before the database has taken it."""
        try:
            if wait:
                await patiently(self._store.job_state, job_id, state, message)
            else:
                await run_in_threadpool(self._store.job_state, job_id, state, message)
        except (StoreAway, TakenOver) as reason:
            log.warning("that job %d is %s cannot be kept: %s", job_id, state, reason)
        else:
            self._say_ended(job_id, state, message)

    def _say_ended(self, job_id: int, state: JobState, message: str = "") -> None:
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
        mine = {*self._queued, *self._running}
        # A thread of its own: requests may have all others.
        news = await asyncio.get_running_loop().run_in_executor(self._thread, self._orphans.look, mine)
        for job_id, state in news.ended.items():
            self._say_ended(job_id, state)
        for job_id in news.lost:
            log.warning("job %d is another process's", job_id)
            self._queued.pop(job_id, None)
            if job_id in self._running:
                self._running[job_id][1].cancel()
        for job_id in news.cancelled:
            await self.cancel(job_id)
        for spec in news.taken:
            log.warning("job %d goes on here: the process that ran it ended", spec.id)
            self.submit(spec, goes_on=True)
