"""An engine that measures nothing: costs follow from the config, faults are scripted. Its boards are leased
by the real dispatcher from the server's own book."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from kernels.target import CATALOGUE
from server import ownership
from server.settings import Settings
from tuner.backend.check import Delivery
from worker.batch import Batch
from worker.candidate import Candidate
from worker.children.nursery import Nursery
from worker.demand import Demand
from worker.engine.cluster import Changes
from worker.fleet.book import Book, Check, Entry, Listing, Usage
from worker.fleet.dispatcher import Dispatcher, NoBoard
from worker.fleet.fleet_file import Fleet
from worker.fleet.matching import Request
from worker.fleet.states import Health
from worker.fleet.status import BoardStatus
from worker.outcome import Answer, ErrorKind, Fact, Outcome

HOST = replace(CATALOGUE["x86-avx2"], name="host", cpu="x86-64-v3-here")


def cost(candidate: Candidate) -> float:
    """Between 1 and 2 ms, always the same for the same candidate."""
    return 1e-3 * (1 + int(candidate.config.key, 16) % 1000 / 1000)


@dataclass
class FakeEngine:
    """``fault`` says how a candidate fails, or None; ``listings`` are the boards, ``check`` how they are.

    Once it has ``measured`` as many as ``most`` it measures nothing more.
    """

    fault: Callable[[Candidate], ErrorKind | None] = lambda _: None
    delay_s: float = 0.01
    most: float = math.inf
    listings: list[Listing] = field(default_factory=lambda: [Listing("host", HOST, "wall", 2)])
    check: Check = field(default_factory=lambda: Check(1e-3, artifact="reference"))
    measured: list[Candidate] = field(default_factory=list)
    peaks: int = 0
    peak_delay_s: float = 0.0
    peak: float = 100.0
    """By the wall clock, in GFLOP/s a thread."""
    delivery: Delivery | None = None
    """What comes of building a job's model; None where no board can run one."""
    ran: dict[str, Any] | None = None
    """What comes of running a model; None where no board can run one."""
    demands: list[Demand] = field(default_factory=list)
    payloads: list[dict[str, Any]] = field(default_factory=list)
    """What was asked for beside boards."""
    functions: list[str] = field(default_factory=list)
    """Of whom."""
    away: str = ""
    nursery: Nursery = field(default_factory=Nursery)
    """Starts when a test that has no other reads a model."""
    _numbers: Any = field(default_factory=itertools.count)

    def boards(self) -> Sequence[BoardStatus]:
        return self.dispatcher.boards()

    def capacity(self, demand: Demand) -> int:
        return sum(board.in_service for board in self.dispatcher.fitting(demand))

    async def refresh(self) -> None:
        await self.dispatcher.seen(self.listings)

    def _fact(self, demand: Demand, value: Any) -> Fact:
        return Fact(value, next(each.id for each in self.listings if each.clock == demand.clock))

    async def reload(self, fleet: Fleet) -> Changes:
        return Changes()

    async def peak_gflops(self, demand: Demand) -> Fact:
        await asyncio.sleep(self.peak_delay_s)
        self.peaks += 1
        return self._fact(demand, (self.peak if demand.clock == "wall" else 10.0) * demand.threads)

    async def bandwidth_gbs(self, demand: Demand) -> Fact:
        return self._fact(demand, 20.0 if demand.clock == "wall" else 2.0)

    async def relayout_seconds(self, demand: Demand) -> Fact:
        return self._fact(demand, {"nchw>nhwc": [[3136, 1e-6], [802816, 2e-4]]})

    async def evaluate(self, batch: Batch) -> list[Outcome]:
        if batch.rounds:
            board = next(each for each in self.listings if batch.demand.tags <= {*each.tags})
            return [
                Outcome(cost(each) * 1.01, (cost(each) * 1.01,) * 7, board=board.id, clock=board.clock)
                for each in batch.candidates
            ]
        request = Request(next(self._numbers), batch.demand)
        waiting = asyncio.ensure_future(self._measure(request, batch))
        watch = asyncio.ensure_future(batch.cancelled.wait())
        try:
            await asyncio.wait([waiting, watch], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done() and any(
                place.request.id == request.id for place in self.dispatcher.waiting()
            ):
                return [Outcome(error=ErrorKind.CANCELLED)] * len(batch.configs)
            return await waiting
        except NoBoard as error:
            return [Outcome(error=ErrorKind.BOARD_LOST, message=str(error))] * len(batch.configs)
        finally:
            watch.cancel()
            waiting.cancel()

    async def _measure(self, request: Request, batch: Batch) -> list[Outcome]:
        outcomes = []
        async with self.dispatcher.lease(request) as held:
            for place, candidate in enumerate(batch.candidates):
                await asyncio.sleep(self.delay_s)
                while len(self.measured) >= self.most and not batch.cancelled.is_set():
                    await asyncio.sleep(0.01)
                if batch.cancelled.is_set():
                    outcome = Outcome(error=ErrorKind.CANCELLED)
                else:
                    self.measured.append(candidate)
                    outcome = self._outcome(candidate, held.lease.board, held.lease.token)
                outcomes.append(outcome)
                batch.on_outcome(place, outcome)
            held.used(Usage(sum(outcome.ok for outcome in outcomes), 1.5, 1.0))
        return outcomes

    def _outcome(self, candidate: Candidate, board: str, lease: int) -> Outcome:
        error = self.fault(candidate)
        return Outcome(
            None if error else cost(candidate),
            error=error,
            message=f"it was {error}" if error else "",
            board=board,
            clock=next(listing.clock for listing in self.listings if listing.id == board),
            lease=lease,
        )

    async def beside(self, function: str, payload: dict[str, Any], demand: Demand, **_: Any) -> Answer | None:
        self.demands.append(demand)
        self.payloads.append(payload)
        self.functions.append(function)
        if self.ran is not None and function.endswith(":profile_in_child"):
            return Answer(self.ran)
        if self.delivery is None or not function.endswith((":deliver_in_child", ":check_in_child")):
            return None
        return Answer(self.delivery.to_json())

    @asynccontextmanager
    async def open(self, settings: Settings, book: Book) -> AsyncIterator[FakeEngine]:
        async def check(board: str, entry: Entry) -> Check:
            return self.check

        self.dispatcher = Dispatcher(book, check, ownership.me())
        await self.dispatcher.start()
        await self.refresh()
        deadline = asyncio.get_running_loop().time() + 120
        while not self.check.problem and any(board.health is Health.UNKNOWN for board in self.boards()):
            assert asyncio.get_running_loop().time() < deadline, self.boards()
            await asyncio.sleep(0.01)
        yield self
        await self.dispatcher.close()
