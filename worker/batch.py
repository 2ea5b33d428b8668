"""One batch of candidates from configs to outcomes: built anywhere, measured under leases, tried again."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from distributed import KilledWorker

from worker.candidate import Candidate
from worker.crew import Crew, NotStarted, WorkerGone
from worker.fleet.book import Usage
from worker.fleet.dispatcher import Dispatcher, NoBoard
from worker.fleet.matching import Request
from worker.fleet.seat import Held
from worker.measure import MeasureOptions
from worker.outcome import ErrorKind, Outcome
from worker.shop import Shipped, build_task, measure_task
from worker.stream import OnOutcome

ATTEMPTS = 3
"""How often a candidate is tried when boards fail under it."""
KILLS = 2
"""How many workers a candidate may kill before it is poison."""
next_request = itertools.count().__next__
"""A number for a request of the one dispatcher that this process has."""
T = TypeVar("T")


@dataclass(frozen=True)
class Order:
    """How a batch is wanted.

    A job of a higher ``level`` goes first, then what has a higher ``priority``. With a ``clock`` only boards
    of it will do. With ``rounds`` candidates are timed in turns. Once ``cancelled`` is set, whatever has not
    ended ends as ``cancelled``.
    """

    options: MeasureOptions
    rounds: int = 0
    priority: float = 0.0
    level: int = 0
    job: int | None = None
    tags: frozenset[str] = frozenset()
    clock: str = ""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    on_outcome: OnOutcome | None = None


class _Cancelled(Exception):
    """Nobody wants the batch any more."""


class Batch:
    """``candidates`` have one workload, one target and one number of threads."""

    def __init__(
        self, crew: Crew, dispatcher: Dispatcher, candidates: Sequence[Candidate], order: Order
    ) -> None:
        self._crew, self._dispatcher = crew, dispatcher
        self._candidates, self._order = candidates, order
        self._built: dict[int, Shipped] = {}
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
                await self._measure(suspects[:1] or pending)
        except NoBoard as error:
            self._fail_pending(ErrorKind.BOARD_LOST, str(error))
        except _Cancelled:
            self._fail_pending(ErrorKind.CANCELLED, "cancelled")
        return [self._outcomes[number] for number in range(len(self._candidates))]

    def _pending(self) -> list[int]:
        return [number for number in range(len(self._candidates)) if number not in self._outcomes]

    async def _build(self, number: int) -> None:
        token, order = uuid.uuid4().hex, self._order
        try:
            built = await self._crew.build(
                build_task,
                self._candidates[number],
                order.options.build_timeout_s,
                token,
                token=token,
                priority=1e9 * order.level + order.priority,
                stops=[order.cancelled],
            )
        except KilledWorker as error:
            built = Outcome(error=ErrorKind.POISON, message=f"killed the workers that built it: {error}")
        except WorkerGone as error:
            built = Outcome(error=ErrorKind.BOARD_LOST, message=str(error))
        if isinstance(built, Outcome):
            self._end(number, built)
        else:
            self._built[number] = built

    async def _measure(self, numbers: list[int]) -> None:
        """Measure some under one lease. Those for which the board is to blame stay pending."""
        order, first = self._order, self._candidates[0]
        request = Request(
            next_request(),
            first.target.key,
            first.threads,
            order.tags,
            order.level,
            start=-order.priority,
            since=self._since,
            job=order.job,
            avoid=self._avoid,
            what=str(first.workload),
            clock=order.clock,
        )
        async with AsyncExitStack() as stack:
            held = await self._unless_cancelled(stack.enter_async_context(self._dispatcher.lease(request)))
            await _Turn(self, held, numbers).run()

    async def _unless_cancelled(self, work: Coroutine[Any, Any, T]) -> T:
        task, watch = asyncio.ensure_future(work), asyncio.ensure_future(self._order.cancelled.wait())
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

    def _end(self, number: int, outcome: Outcome) -> None:
        if number in self._outcomes:
            return
        self._outcomes[number] = outcome
        if self._order.on_outcome is not None:
            self._order.on_outcome(number, outcome)

    def _fail_pending(self, kind: ErrorKind, message: str) -> None:
        for number in self._pending():
            self._end(number, Outcome(error=kind, message=message))


class _Turn:
    """What a batch does under one lease."""

    def __init__(self, batch: Batch, held: Held, numbers: list[int]) -> None:
        self._batch, self._held, self._numbers = batch, held, numbers
        self._heard: set[int] = set()
        self._usage = Usage()

    async def run(self) -> None:
        """Measure; outcomes are taken in as they come, and those that came are kept whatever happens."""
        batch, held, token = self._batch, self._held, uuid.uuid4().hex
        order, crew = batch._order, batch._crew
        parts = [batch._built[number] for number in self._numbers]
        with crew.stream(token, self._hear):
            try:
                outcomes = await crew.run_on(
                    held.lease.board,
                    measure_task,
                    parts,
                    order.options,
                    order.rounds,
                    token,
                    crew.topic,
                    token=token,
                    stops=[order.cancelled, held.lost],
                )
                for index, outcome in enumerate(outcomes):
                    self._hear(index, outcome)
            except WorkerGone as error:
                self._worker_gone(str(error), began=not isinstance(error, NotStarted))
            finally:
                held.used(self._usage)

    def _hear(self, index: int, outcome: Outcome) -> None:
        """Take in an outcome, which may come twice: when it is measured, and with all others."""
        if index in self._heard:
            return
        self._heard.add(index)
        batch, held, number = self._batch, self._held, self._numbers[index]
        outcome = replace(outcome, lease=held.lease.token)
        if outcome.fault:
            held.fault(outcome.fault)
        elif outcome.error is ErrorKind.RUN_TIMEOUT:
            held.doubt(f"frozen, or a candidate without end: {outcome.message}")
        if outcome.error is ErrorKind.CANCELLED:
            if batch._order.cancelled.is_set():
                batch._end(number, outcome)
            else:
                self._again(number, f"board {held.lease.board} was taken away")
        elif _blames_board(outcome, tried=batch._attempts[number] > 0):
            held.fault(outcome.message)
            self._again(number, outcome.message)
        else:
            batch._end(number, outcome)
        used, ended = self._usage, batch._outcomes.get(number) == outcome
        if outcome.error is not ErrorKind.CANCELLED:
            # Only what gets a record is a trial: the same one is tried again elsewhere.
            self._usage = Usage(
                used.trials + ended, used.busy_s + outcome.measure_s, used.timed_s + outcome.timed_s
            )

    def _worker_gone(self, reason: str, began: bool) -> None:
        """Who ran when the worker died is under suspicion; candidates run in their order."""
        batch = self._batch
        self._held.fault(reason)
        left = [number for index, number in enumerate(self._numbers) if index not in self._heard]
        if began and left and (len(left) == 1 or not batch._order.rounds):
            batch._kills[left[0]] += 1
            if batch._kills[left[0]] >= KILLS:
                message = f"killed {KILLS} workers that it ran on: {reason}"
                batch._end(left.pop(0), Outcome(error=ErrorKind.POISON, message=message))
        for number in left:
            self._again(number, reason)

    def _again(self, number: int, why: str) -> None:
        batch = self._batch
        batch._avoid |= {self._held.lease.board}
        batch._attempts[number] += 1
        if batch._attempts[number] >= ATTEMPTS:
            message = f"tried {ATTEMPTS} times, on {', '.join(sorted(batch._avoid))}: {why}"
            batch._end(number, Outcome(error=ErrorKind.BOARD_LOST, message=message))


def _blames_board(outcome: Outcome, tried: bool) -> bool:
    """Whether a board failed; one that was checked since an upload error is not to blame for the next."""
    return outcome.error is ErrorKind.BOARD_LOST or (outcome.error is ErrorKind.UPLOAD_ERROR and not tried)
