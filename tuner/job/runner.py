"""Runs one job: what is known first, then batches until the budget or the promise of more is spent."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from kernels.space import Config
from tuner.job import placing, reports
from tuner.job.background import background
from tuner.job.budget import Allowance
from tuner.job.config_race import race_configs
from tuner.job.delivery import deliver
from tuner.job.doubts import TakenBack, begin_anew, take_over
from tuner.job.engine import Engine, evaluated, outcomes_of
from tuner.job.fairness import VirtualTime
from tuner.job.patience import patiently
from tuner.job.reports import Publish
from tuner.job.reserve import Deliveries
from tuner.job.store import Store
from tuner.job.streak import Streak
from tuner.job.tally import Tally
from tuner.job.verifying import verify_task
from tuner.log.record import Record
from tuner.search import scheduler
from tuner.search.calibration import Calibration
from tuner.search.problem import Problem
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec, Trial
from tuner.states import GivenUp, JobState, Phase, StoreAway, TakenOver, TaskState
from worker.batch import VERIFY_ROUNDS, Batch
from worker.demand import Demand
from worker.outcome import ErrorKind, Outcome

AHEAD = 2
"""Batches beyond those that are measured: they are built meanwhile."""
TOP = 3
"""How many of each task and layouts are measured again at the end."""
PAIRS = 3
"""About how many pairs of layouts of a task are of use to a model."""
TICK_S, PROGRESS_S, GRACE_S = 0.25, 1.0, 15.0

T = TypeVar("T")
log = logging.getLogger(__name__)


async def run_job(
    job: JobSpec,
    engine: Engine,
    store: Store,
    publish: Publish,
    cancelled: asyncio.Event,
    fair: VirtualTime | None = None,
    deliveries: Deliveries | None = None,
) -> JobState:
    """Run ``job``, or what is left of it, to its end; the final state, which is saved and published too.

    ``fair`` and ``deliveries`` are shared by all jobs of one engine. Running a job again goes on where it
    was: its trials count, and none is measured twice. When this coroutine itself is cancelled, the job is
    ``queued`` again.
    """
    shared = fair or VirtualTime(), deliveries or Deliveries()
    return await _Run(job, engine, store, publish, cancelled, *shared).run()


@dataclass
class _Sent:
    """A batch that the engine works on; of those in ``ended`` the outcome was taken in."""

    search: TaskSearch
    batch: Batch
    ended: set[int] = field(default_factory=set)


class _Run:
    def __init__(
        self,
        job: JobSpec,
        engine: Engine,
        store: Store,
        publish: Publish,
        cancelled: asyncio.Event,
        fair: VirtualTime,
        deliveries: Deliveries,
    ) -> None:
        self.job, self.engine, self.store = job, engine, store
        self.publish, self.cancelled, self.fair = publish, cancelled, fair
        # Only a real clock has luck in its times: a simulated one would tell the same again.
        self.top = TOP if job.demand.clock == "wall" else 0
        final = self.top * len(job.tasks) * (PAIRS if job.any_layout else 1)
        self.deliveries, self.delivered, self.promises = deliveries, False, True
        # Inside a model configs are compared on this machine only.
        place = job.model is not None and job.demand.clock == "wall"
        reserve_s = deliveries.expected_s(job)
        self.allowance = Allowance(job.budget, job.elapsed_s, final, place, reserve_s)
        self.searches: list[TaskSearch] = []
        self.calibration = Calibration() if job.any_layout else None
        self.taken_back = TakenBack(store)
        self.sent: dict[asyncio.Task[list[Outcome]], _Sent] = {}
        self.arrived: list[tuple[_Sent, int, Outcome]] = []
        self.news = asyncio.Event()
        self.tally = Tally()
        self.phase = Phase.SEARCHING
        self.away_until = 0.0
        self.leaving = False  # the service stops, and waits for no database
        self.streak = Streak()
        # Jobs of one kind share boards.
        self.kind = f"{job.demand.target.key} {job.demand.clock}"

    async def run(self) -> JobState:
        """The whole job; raises nothing but its own cancellation."""
        try:
            await self._state(JobState.RUNNING)
            await self._prepare()
            async with self._heartbeat():
                async with self._until(self.allowance.search_left) as stop:
                    await self._search(stop)
                self._publish_best(await take_over(self.job.id, self.searches, self.store))
                if self.top:
                    self._enter(Phase.REMEASURING)
                    async with self._until(self.allowance.verify_left) as stop:
                        await self._verify(stop)
                overdue = self._overdue
                note, built = reports.deadline_note(self.job), ""
                if not overdue:
                    self._enter(Phase.COMPARING)
                    note = await self._place()
                    if self.job.model is not None:
                        self._enter(Phase.BUILDING)
                    tuned = any(search.best is not None for search in self.searches)
                    late_s = self.deliveries.late_s(self.job, tuned)
                    async with self._until(lambda: self.allowance.left() + late_s) as over:
                        built = await self._deliver(over)
            if self.cancelled.is_set():
                return await self._end(JobState.CANCELLED)
            state, message = reports.verdict(self.searches, overdue, self.delivered)
            spent = overdue or self.allowance.spent(self.tally.trials)
            message = message or ("" if spent else reports.early(self.searches, self.promises))
            return await self._end(state, "; ".join(filter(None, (message, note, built))))
        except asyncio.CancelledError:
            self.leaving = True
            with suppress(TakenOver, StoreAway):
                await self._state(JobState.QUEUED)
            raise
        except TakenOver as reason:
            log.warning("this run ends: %s", reason)
            return JobState.QUEUED
        except GivenUp as reason:
            return await self._end(JobState.FAILED, str(reason))
        except Exception as error:
            log.exception("job %s failed", self.job.id)
            return await self._end(JobState.FAILED, f"{type(error).__name__}: {error}")
        finally:
            self.fair.leave(self.job.id)

    async def _prepare(self) -> None:
        """Make the searches, take up the job's earlier trials, and count what other jobs found out."""
        await self.taken_back.news(self._ask)
        job, earlier = self.job, await self._ask(self.store.trials, self.job.id)
        target, threads, clock = job.demand.target, job.demand.threads, job.demand.clock
        self.tally.add(earlier)
        known: dict[int, list[Record]] = {}
        for task in job.tasks:
            problem = await asyncio.to_thread(
                Problem.of, task.workload, target, job.numerics, threads, job.any_layout
            )
            search = TaskSearch(task, job, problem, [trial for trial in earlier if trial.task_id == task.id])
            found = await self._ask(self.store.known, task.workload, target, clock, threads)
            known[task.id] = search.usable(found)
            # By a simulated clock nothing is disturbed but what was marked as a lie.
            search.doubt(found, TOP, mine=clock != "wall")
            self.searches.append(search)
        # Every task keeps its trial 0 of the budget; those that know least choose first, so nothing is lost.
        owing = sum(not search.knows_incumbent(known[search.task.id]) for search in self.searches)
        order = sorted(self.searches, key=lambda search: len(known[search.task.id]))
        for position, search in enumerate(order):
            share = self.allowance.trials_left(self.tally.trials + owing) / (len(order) - position)
            records = known[search.task.id]
            await self._keep(search, search.reuse(records, int(min(share, len(records)))))
            search.inform(records)
            if search.curve.plateau:
                await self._task_state(search, TaskState.PLATEAU)

    async def _search(self, stop: asyncio.Event) -> None:
        """Keep the engine in batches until there is nothing more to try or ``stop`` is set."""
        stopped: float | None = None
        try:
            while True:
                while not stop.is_set() and len(self.sent) < self._most_sent and await self._launch(stop):
                    pass
                if stop.is_set() and stopped is None:
                    stopped = time.monotonic()
                overdue = stopped is not None and time.monotonic() - stopped > GRACE_S
                if not self.sent or overdue:
                    break
                # Not wait_for: before Python 3.12 it may swallow a cancellation.
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await self.news.wait()
                self.news.clear()
                await self._take_in()
                for finished in [work for work in self.sent if work.done()]:
                    await self._came_back(finished)
                if await self.taken_back.news(self._ask):
                    await self._begin_anew()
        except asyncio.CancelledError:
            self.leaving = True
            raise
        finally:
            stop.set()
            for work in self.sent:
                work.cancel()
            await asyncio.gather(*self.sent, return_exceptions=True)
            with suppress(GivenUp, StoreAway):  # how the search ended is settled
                await self._take_in()

    async def _launch(self, stop: asyncio.Event) -> bool:
        """Send off the most promising batch; False when there is none to send now."""
        pending = sum(len(sent.batch.configs) - len(sent.ended) for sent in self.sent.values())
        used = self.tally.trials + pending
        curves = [search.curve for search in self.searches]
        if self.allowance.much_left(used) and not scheduler.worth(curves, self.allowance.more(used, pending)):
            self.promises = False
            return False
        while (at := scheduler.choose(curves)) is not None:
            search = self.searches[at]
            if search.curve.trials + search.curve.in_flight == 0:
                waiting = sum(other.state is TaskState.WAITING for other in self.searches)
                size = self.allowance.opening(used, pending, waiting, wanted=search.first)
            else:
                size = self.allowance.batch(used, pending, self._most_sent)
            if size < 1:
                return False
            configs = await asyncio.to_thread(search.ask, size, self.calibration)
            if configs:
                await self._task_state(search, TaskState.ACTIVE)
                self._send(search, configs, stop)
                return True
            search.curve.exhausted = True
            await self._task_state(search, TaskState.EXHAUSTED)
        return False

    def _send(self, search: TaskSearch, configs: list[Config], stop: asyncio.Event) -> None:
        def arrive(place: int, outcome: Outcome) -> None:
            self.arrived.append((sent, place, outcome))
            self.news.set()

        batch = Batch(search.task.workload, configs, self._demand(configs), on_outcome=arrive, cancelled=stop)
        sent = _Sent(search, batch)
        work = asyncio.ensure_future(self.engine.evaluate(batch))
        work.add_done_callback(lambda _: self.news.set())
        search.curve.in_flight += len(configs)
        self.sent[work] = sent

    def _demand(self, configs: Sequence[Config]) -> Demand:
        """The job's demand, at the turn of its next batch."""
        return replace(self.job.demand, turn=self.fair.begin(self.job.id, len(configs), self.kind))

    @property
    def _most_sent(self) -> int:
        """Batches to have under way at once."""
        return max(1, self.engine.capacity(self.job.demand)) + AHEAD

    async def _take_in(self) -> None:
        """Save what has arrived, and learn from it."""
        arrived, self.arrived = self.arrived, []
        ended: dict[TaskSearch, list[tuple[Config, Outcome]]] = {}
        for sent, place, outcome in arrived:
            if place not in sent.ended and outcome.error is not ErrorKind.CANCELLED:
                sent.ended.add(place)
                ended.setdefault(sent.search, []).append((sent.batch.configs[place], outcome))
        for search, results in ended.items():
            trials = await self._keep(search, [search.trial(config, outcome) for config, outcome in results])
            if search.curve.plateau and search.state is TaskState.ACTIVE:
                await self._task_state(search, TaskState.PLATEAU)
            for trial in trials:
                self.streak.note(trial.record)

    async def _begin_anew(self) -> None:
        """Search by what still stands, since boards' words were taken back."""
        self.calibration, changed = await begin_anew(self.job, self.searches, self.store, TOP)
        for search in changed:
            self.publish("best", reports.best_event(search, self.searches))

    async def _came_back(self, finished: asyncio.Task[list[Outcome]]) -> None:
        """Take in a batch that came back: save it, count it, learn from it."""
        sent = self.sent.pop(finished)
        count = len(sent.batch.configs)
        sent.search.curve.in_flight -= count
        self.fair.finish(sent.batch.demand.turn, self.kind)
        outcomes = outcomes_of(finished, count)
        self.arrived += [(sent, place, outcome) for place, outcome in enumerate(outcomes)]
        await self._take_in()
        if sent.ended:
            self.allowance.observe(len(sent.ended), sum(outcome.measure_s for outcome in outcomes))

    async def _keep(self, search: TaskSearch, trials: list[Trial]) -> list[Trial]:
        """Save trials, and only then count, learn and publish them; those that were kept."""
        if not trials:
            return []
        kept = await self._ask(self.store.save, self.job.id, trials, self.allowance.elapsed)
        for trial in trials:
            if trial not in kept:
                search.again(trial)
        trials = kept
        before = search.best
        search.tell(trials)
        if self.calibration is not None:
            self.calibration.learn_all(search.problem, (trial.record for trial in trials))
        self.tally.add(trials)
        for trial in trials:
            self.publish("trial", reports.trial_event(trial))
        if search.best is not before:
            self.publish("best", reports.best_event(search, self.searches))
        return trials

    async def _verify(self, stop: asyncio.Event) -> None:
        """Measure the best few of each task again, those that matter most first."""
        order = [search for search in self.searches if search.best is not None]
        order.sort(key=lambda search: search.curve.occurs * search.curve.best_s, reverse=True)
        free = asyncio.Semaphore(self._most_sent)

        async def one(search: TaskSearch) -> None:
            async with free:
                await self._verify_task(search, stop)

        await asyncio.gather(*map(one, order))

    async def _verify_task(self, search: TaskSearch, stop: asyncio.Event) -> None:
        def changed(search: TaskSearch) -> None:
            self.publish("best", reports.best_event(search, self.searches))

        measure = partial(self._in_turns, stop, search)
        await verify_task(search, self.top, measure, self.store, self._ask, stop, changed)

    async def _in_turns(
        self, stop: asyncio.Event, search: TaskSearch, configs: list[Config]
    ) -> list[Outcome]:
        """Measure configs of one task in turns."""
        workload, demand = search.task.workload, self._demand(configs)
        batch = Batch(workload, configs, demand, rounds=VERIFY_ROUNDS, cancelled=stop)
        try:
            return await evaluated(self.engine, batch)
        finally:
            self.fair.finish(batch.demand.turn, self.kind)

    async def _place(self) -> str:
        """Compare the best configs inside the built model; what went wrong, if anything."""
        parts = (self.job, self.searches, self.engine, self.store, self.cancelled)
        return self._publish_best(*await placing.place(*parts, self.allowance.place_left()))

    async def _deliver(self, over: asyncio.Event) -> str:
        """Build, check and race the model, or race one workload's configs, until ``over``; what is to say."""
        if self.job.model is None:
            measure = partial(self._in_turns, over)
            race = race_configs(self.job, self.searches, self.store, measure, over, self.deliveries)
            return self._publish_best(*await race)
        parts = (self.job, self.searches, self.engine, self.store, self.cancelled)
        left, told = self.allowance.left, self.deliveries
        changed, note, self.delivered = await deliver(*parts, over, left, told)
        return self._publish_best(changed, note)

    def _publish_best(self, changed: Sequence[TaskSearch], note: str = "") -> str:
        for each in changed:
            self.publish("best", reports.best_event(each, self.searches))
        return note

    @asynccontextmanager
    async def _until(self, left: Callable[[], float]) -> AsyncIterator[asyncio.Event]:
        """An event that is set when ``left()`` seconds are over, at the deadline, or when cancelled."""
        stop = asyncio.Event()

        async def watch() -> None:
            while not self.cancelled.is_set() and not self._overdue and (rest := left()) > 0:
                idle, since = self._idle, time.monotonic()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(TICK_S, rest)):
                        await self.cancelled.wait()
                if idle and self._idle:
                    self.allowance.waited(time.monotonic() - since)
            stop.set()

        if self.cancelled.is_set():
            stop.set()
        async with background(watch()):
            yield stop

    @asynccontextmanager
    async def _heartbeat(self) -> AsyncIterator[None]:
        """Publish the progress every second, and once more at the end."""

        async def beat() -> None:
            while True:
                self._progress()
                await asyncio.sleep(PROGRESS_S)

        async with background(beat()):
            yield
        self._progress()

    def _progress(self) -> None:
        data = reports.progress_event(self.tally, self.allowance, self.searches, self.phase)
        self.publish("progress", data)

    def _enter(self, phase: Phase) -> None:
        """Begin ``phase``, and tell so at once."""
        self.phase = phase
        self._progress()

    async def _task_state(self, search: TaskSearch, state: TaskState) -> None:
        if search.state is not state:
            search.state = state
            await self._ask(self.store.task_state, search.task.id, state)

    async def _ask(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call the store, and again while it is away."""
        if self.leaving:
            return await asyncio.to_thread(call, *arguments)
        return await patiently(call, *arguments, waits=self._waits)

    def _waits(self, seconds: float) -> None:
        self.away_until = time.monotonic() + seconds + TICK_S

    @property
    def _idle(self) -> bool:
        """Whether nothing can be done now, for want of the database or of a board."""
        return time.monotonic() < self.away_until or not self.engine.capacity(self.job.demand)

    @property
    def _overdue(self) -> bool:
        return self.job.deadline is not None and time.time() >= self.job.deadline

    async def _state(self, state: JobState, message: str = "") -> None:
        await self._ask(self.store.job_state, self.job.id, state, message)
        self.publish("state", {"state": state.value, "message": message})

    async def _end(self, state: JobState, message: str = "") -> JobState:
        if state in (JobState.DONE, JobState.INCOMPLETE):
            for search in self.searches:
                if search.state in (TaskState.WAITING, TaskState.ACTIVE) and search.records:
                    await self._task_state(search, TaskState.DONE)
        await self._state(state, message)
        self.publish("end", {"state": state.value})
        return state
