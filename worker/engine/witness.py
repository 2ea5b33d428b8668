"""Some trials are repeated on another board of their target: who is alone with what it says is parked.

A board that lies plausibly passes every other check. The first trial of each board and every 50th after it
is measured once more elsewhere, where there is another board of its target and clock. When the two differ, a
third one decides, where there is one. Else the one that says it failed is not believed, as a result that is
right cannot be had without running; of two times the shorter one, as nothing that seems slow ever wins.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from dataclasses import replace

from worker.build.build import Built
from worker.demand import Demand
from worker.engine.asyncio_tasks import end
from worker.engine.dask_client import DaskClient
from worker.engine.dask_worker import measure_task
from worker.engine.scheduler_link import WorkerGone
from worker.fleet.dispatcher import Dispatcher, NoBoard
from worker.fleet.matching import Request, fits
from worker.measure.measure import MeasureOptions
from worker.outcome import ErrorKind, Outcome

EVERY = 50
_OWN = (ErrorKind.CRASH, ErrorKind.RUN_TIMEOUT, ErrorKind.WRONG_RESULT)
"""Failures that are the candidate's, if they are true."""
log = logging.getLogger(__name__)


class Witness:
    """Hears of all trials of one engine."""

    def __init__(self, dask: DaskClient, dispatcher: Dispatcher, limit: float) -> None:
        self._dask, self._dispatcher, self._limit = dask, dispatcher, limit
        self._heard: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Leave it at what was repeated so far."""
        for task in list(self._tasks):
            await end(task)

    def heard(
        self, built: Built, outcome: Outcome, demand: Demand, options: MeasureOptions, number: int
    ) -> None:
        """A trial ended; ``number`` is that of a request for a repetition."""
        if not outcome.board or not _telling(outcome):
            return
        self._heard[outcome.board] += 1
        if self._heard[outcome.board] % EVERY == 1:
            clock = outcome.clock if outcome.ok else demand.clock
            wanted = replace(demand, job=None, tags=frozenset(), clock=clock)
            task = asyncio.create_task(self._repeat(built, outcome, wanted, options, number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _repeat(
        self, built: Built, first: Outcome, demand: Demand, options: MeasureOptions, number: int
    ) -> None:
        try:
            others = [
                board.id
                for board in self._dispatcher.boards()
                if board.in_service and board.id != first.board and fits(replace(demand, board=""), board)
            ]
            said: list[Outcome] = [first]
            for board in others:
                again = await self._ask(board, built, demand, options, number)
                if again is not None and _telling(again):
                    said.append(again)
                if len(said) == 3 or (len(said) == 2 and agree(said[0], said[1], self._limit)):
                    break
            alone = out_of_line(said, self._limit)
            if alone is not None and alone.error is ErrorKind.RUN_TIMEOUT:  # it may have been frozen
                again = await self._ask(alone.board, built, demand, options, number)
                alone = again if again is not None and again.error is ErrorKind.RUN_TIMEOUT else None
            if alone is not None:
                rest = "; ".join(
                    f"{each.board}: {_words(each)}" for each in said if each.board != alone.board
                )
                why = f"it said of a trial that others repeated: {_words(alone)}; {rest}"
                await self._dispatcher.disbelieve(alone.board, f"board {alone.board}: {why}")
        except Exception as error:  # no trial depends on it
            log.warning("a trial of board %s was not repeated: %s", first.board, error)

    async def _ask(
        self, board: str, built: Built, demand: Demand, options: MeasureOptions, number: int
    ) -> Outcome | None:
        """What another board says of it; None where that cannot be had."""
        token = uuid.uuid4().hex
        try:
            async with self._dispatcher.lease(Request(number, replace(demand, board=board))) as held:
                (outcome,) = await self._dask.run_on(
                    board,
                    measure_task,
                    [built],
                    options,
                    0,
                    token,
                    self._dask.topic,
                    token=token,
                    stops=[held.lost],
                )
                if outcome.lied:
                    held.lie(outcome.message)
                elif outcome.fault:
                    held.fault(outcome.fault)
                return None if outcome.lied or held.lost.is_set() else outcome
        except (NoBoard, WorkerGone):
            return None


def agree(one: Outcome, other: Outcome, limit: float) -> bool:
    """Whether two boards said the same of one candidate, by the wall's clock within ``limit``."""
    if one.cost_s is None or other.cost_s is None:
        return one.cost_s is other.cost_s
    if one.clock != "wall":
        return one.cost_s == other.cost_s
    least, most = sorted(min(each.repeats_s, default=each.cost_s or 0.0) for each in (one, other))
    return most <= limit * least


def out_of_line(said: list[Outcome], limit: float) -> Outcome | None:
    """Who is not believed: of what two boards said, or three where the first two differ."""
    if len(said) < 2 or agree(said[0], said[1], limit):
        return None
    first, second, *third = said
    for alone, other in ((first, second), (second, first)):
        if third and agree(third[0], other, limit) and not agree(third[0], alone, limit):
            return alone
    if (first.cost_s is None) != (second.cost_s is None):
        return first if first.cost_s is None else second
    return min(first, second, key=lambda each: each.cost_s or 0.0)


def _telling(outcome: Outcome) -> bool:
    return outcome.error in _OWN if outcome.error else not outcome.disturbed


def _words(outcome: Outcome) -> str:
    return (
        f"{outcome.error}, {outcome.message}" if outcome.cost_s is None else f"{1e3 * outcome.cost_s:.6g} ms"
    )
