"""A batch on its way from configs to outcomes: built anywhere, measured under leases, tried again."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar

from distributed import KilledWorker

from worker.batch import Batch
from worker.build.build import Built
from worker.engine.dask_client import DaskClient, NotStarted
from worker.engine.dask_worker import build_task, measure_task
from worker.engine.scheduler_link import SchedulerGone, WorkerGone
from worker.fleet.book import Usage
from worker.fleet.dispatcher import Dispatcher, NoBoard
from worker.fleet.known_board import Held
from worker.fleet.matching import Request
from worker.measure.measure import MeasureOptions
from worker.outcome import ErrorKind, Outcome
from worker.shortage import PAUSE_S, Shortage, shortage

ATTEMPTS = 3
"""How often a candidate is tried when boards fail under it."""
KILLS = 2
"""How many workers a candidate may kill before it is poison."""
next_request = itertools.count().__next__
"""A number for a request of the one dispatcher that this process has."""
T = TypeVar("T")


class _Cancelled(Exception):
    """Nobody wants the batch any more."""


class BatchRun:
    """One run of a batch: what was built, what ended, and which boards failed it."""

    def __init__(
        self,
        dask: DaskClient,
        dispatcher: Dispatcher,
        batch: Batch,
        options: MeasureOptions,
        best: dict[str, float],
        heard: Callable[[Built, Outcome], None] = lambda built, outcome: None,
    ) -> None:
        """``heard`` gets what boards said of each built candidate.

        ``best`` is the best that each board has said of such a batch so far, and is brought up to date:
        what one says decides nothing about another's trials."""
        self._best, self._heard = best, heard
        self._dask, self._dispatcher, self._batch, self._options = dask, dispatcher, batch, options
        self._candidates = batch.candidates
        self._built: dict[int, Built] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._attempts: Counter[int] = Counter()
        self._kills: Counter[int] = Counter()
        self._avoid: frozenset[str] = frozenset()
        self._since = asyncio.get_running_loop().time()

    async def run(self) -> list[Outcome]:
        """An outcome for each candidate, in their order."""
        try:
            await asyncio.gather(*map(self._build, range(len(self._candidates))))
            while pending := self._pending():
                # One that may have killed a worker goes alone: the others shall not pay for it.
                suspects = [number for number in pending if self._kills[number]]
                try:
                    await self._lease(suspects[:1] or pending)
                except SchedulerGone:  # they wait for it, and nobody is to blame
                    await self._unless_cancelled(self._dask.back())
                except (Shortage, OSError, MemoryError) as error:
                    await self._wait_out(error)
        except NoBoard as error:
            self._fail_pending(ErrorKind.BOARD_LOST, str(error))
        except _Cancelled:
            self._fail_pending(ErrorKind.CANCELLED, "cancelled")
        return [self._outcomes[number] for number in range(len(self._candidates))]

    def _pending(self) -> list[int]:
        return [number for number in range(len(self._candidates)) if number not in self._outcomes]

    async def _build(self, number: int) -> None:
        demand = self._batch.demand
        built: Built | Outcome | None = None
        try:
            while built is None:
                token = uuid.uuid4().hex
                try:
                    built = await self._dask.build(
                        build_task,
                        self._candidates[number],
                        self._options.build_timeout_s,
                        token,
                        token=token,
                        priority=1e9 * demand.priority - demand.turn,
                        stops=[self._batch.cancelled],
                    )
                except SchedulerGone:
                    await self._unless_cancelled(self._dask.back())
                except (Shortage, OSError, MemoryError) as error:
                    await self._wait_out(error)
        except _Cancelled:
            built = Outcome(error=ErrorKind.CANCELLED, message="cancelled")
        except KilledWorker as error:
            built = Outcome(error=ErrorKind.POISON, message=f"killed the workers that built it: {error}")
        except WorkerGone as error:
            kind = ErrorKind.CANCELLED if self._batch.cancelled.is_set() else ErrorKind.BOARD_LOST
            built = Outcome(error=kind, message=str(error))
        if isinstance(built, Outcome):
            self._end(number, built)
        else:
            self._built[number] = built

    async def _wait_out(self, error: Exception) -> None:
        """What a machine is short of comes back, and no board is to blame; another error is raised."""
        if not shortage(error):
            raise error
        await self._unless_cancelled(asyncio.sleep(PAUSE_S))

    async def _lease(self, numbers: list[int]) -> None:
        """Measure some under one lease. Those for which the board is to blame stay pending."""
        request = Request(next_request(), self._batch.demand, self._since, self._avoid, patient=True)
        async with AsyncExitStack() as stack:
            held = await self._unless_cancelled(stack.enter_async_context(self._dispatcher.lease(request)))
            await self._measure(held, numbers)

    async def _unless_cancelled(self, work: Coroutine[Any, Any, T]) -> T:
        task, watch = asyncio.ensure_future(work), asyncio.ensure_future(self._batch.cancelled.wait())
        try:
            await asyncio.wait([task, watch], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise _Cancelled
            return task.result()
        finally:
            watch.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def _measure(self, held: Held, numbers: list[int]) -> None:
        """Measure on a board; outcomes are taken in as they come, and those that came are kept whatever
        happens."""
        token, dask, silent = uuid.uuid4().hex, self._dask, list(numbers)

        def hear(index: int, outcome: Outcome) -> None:
            # It may come twice: when it is measured, and with all others.
            if numbers[index] in silent:
                silent.remove(numbers[index])
                self._take_in(held, numbers[index], replace(outcome, lease=held.lease.token, at=time.time()))

        with dask.stream(token, hear):
            try:
                outcomes = await dask.run_on(
                    held.lease.board,
                    measure_task,
                    [self._built[number] for number in numbers],
                    replace(self._options, best_s=self._options.best_s or self._best.get(held.lease.board)),
                    self._batch.rounds,
                    token,
                    dask.topic,
                    token=token,
                    stops=[self._batch.cancelled, held.lost],
                )
                for index, outcome in enumerate(outcomes):
                    hear(index, outcome)
            except SchedulerGone:
                raise
            except WorkerGone as error:
                self._worker_gone(held, silent, str(error), began=not isinstance(error, NotStarted))

    def _take_in(self, held: Held, number: int, outcome: Outcome) -> None:
        if outcome.cost_s is not None:
            best = min(outcome.cost_s, self._best.get(held.lease.board, math.inf))
            self._best[held.lease.board] = best
        if outcome.lied:
            held.lie(outcome.message)
            self._best.pop(held.lease.board, None)
        if outcome.fault:
            held.fault(outcome.fault)
        elif outcome.error is ErrorKind.RUN_TIMEOUT:
            held.doubt(f"frozen, or a candidate without end: {outcome.message}")
        if outcome.error is ErrorKind.CANCELLED:
            if self._batch.cancelled.is_set():
                self._end(number, outcome)
            else:
                self._again(held, number, f"board {held.lease.board} was taken away")
            return
        if _blames_board(outcome, tried=self._attempts[number] > 0):
            held.fault(outcome.message)
            self._again(held, number, outcome.message)
        else:
            self._end(number, outcome)
            if not self._batch.rounds:
                self._heard(self._built[number], outcome)
        # Only what gets a record is a trial: the same one is tried again elsewhere.
        ended, used = self._outcomes.get(number) == outcome, held.usage
        held.used(Usage(used.trials + ended, used.busy_s + outcome.measure_s, used.timed_s + outcome.timed_s))

    def _worker_gone(self, held: Held, left: list[int], reason: str, began: bool) -> None:
        """Who ran when the worker died is under suspicion; candidates run in their order."""
        held.fault(reason)
        if began and left and (len(left) == 1 or not self._batch.rounds):
            self._kills[left[0]] += 1
            if self._kills[left[0]] >= KILLS:
                message, board = f"killed {KILLS} workers that it ran on: {reason}", held.lease.board
                self._end(left.pop(0), Outcome(error=ErrorKind.POISON, message=message, board=board))
        for number in left:
            self._again(held, number, reason)

    def _again(self, held: Held, number: int, why: str) -> None:
        self._avoid |= {held.lease.board}
        self._attempts[number] += 1
        if self._attempts[number] >= ATTEMPTS:
            message = f"tried {ATTEMPTS} times, on {', '.join(sorted(self._avoid))}: {why}"
            self._end(number, Outcome(error=ErrorKind.BOARD_LOST, message=message))

    def _end(self, number: int, outcome: Outcome) -> None:
        if number not in self._outcomes:
            self._outcomes[number] = outcome
            self._batch.on_outcome(number, outcome)

    def _fail_pending(self, kind: ErrorKind, message: str) -> None:
        for number in self._pending():
            self._end(number, Outcome(error=kind, message=message))


def _blames_board(outcome: Outcome, tried: bool) -> bool:
    """Whether a board failed; one that was checked since an upload error is not to blame for the next."""
    return outcome.error is ErrorKind.BOARD_LOST or (outcome.error is ErrorKind.UPLOAD_ERROR and not tried)
