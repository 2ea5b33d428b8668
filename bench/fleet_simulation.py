"""The dispatcher with synthetic boards: how much of their time it keeps them measuring.

python -m bench.fleet_simulation --boards 200 --json FILE

The dispatcher and its book in memory are the product's own and run in real time, so what dispatching costs
counts; a board is a sleep of known length.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.target import CATALOGUE
from worker.demand import Demand
from worker.fleet.book import Check, Entry, Listing, Usage
from worker.fleet.dispatcher import Dispatcher
from worker.fleet.matching import Request
from worker.fleet.memory_book import MemoryBook

BATCH = 8
CHECK_S = 0.5
REFRESH_S = 2.0
TARGET = CATALOGUE["rpi4"]


@dataclass
class Board:
    """A synthetic board; while it is not ``up`` nothing on it succeeds."""

    id: str
    up: bool = True
    busy: list[tuple[float, float]] = field(default_factory=list)
    """When it measured: start and nominal length in seconds of the loop's clock."""

    @property
    def listing(self) -> Listing:
        """As its worker would describe it."""
        return Listing(self.id, TARGET, "wall", 1, alive=self.up)


@dataclass
class Job:
    """A stream of trials; ``measured`` counts how often each number was kept."""

    id: int
    priority: int = 0
    numbers: Any = field(default_factory=itertools.count)
    taken: set[int] = field(default_factory=set)
    measured: Counter[int] = field(default_factory=Counter)
    turn: float = 0.0
    """That of its next batch."""


class Fleet:
    """Boards, jobs and a dispatcher between them, for ``seconds`` of the loop's time.

    Each trial takes ``trial_s``, give or take half of it. ``trouble`` runs beside and may do harm. What had
    begun at the end is finished, so that a trial that was never measured shows.
    """

    def __init__(
        self, boards: int, jobs: Sequence[Job], *, trial_s: float, book: MemoryBook, threaded: bool = True
    ) -> None:
        self.boards = {f"board-{number:03d}": Board(f"board-{number:03d}") for number in range(boards)}
        self.jobs, self.trial_s, self.book = jobs, trial_s, book
        self.dispatcher = Dispatcher(book, self._check, "simulation", threaded=threaded)
        self.random = random.Random(7)
        self.leases = 0
        self.grants: list[int] = []
        """The jobs that got a lease, in order."""
        self._requests = itertools.count()

    async def run(
        self, seconds: float, trouble: Callable[[Fleet], Awaitable[None]] | None = None
    ) -> dict[str, Any]:
        """The figures; utilisation and throughput leave out the start, in which all boards are checked."""
        loop = asyncio.get_running_loop()
        await self.dispatcher.start()
        await self.refresh()
        while any(board.health != "good" for board in self.dispatcher.boards()):
            await asyncio.sleep(CHECK_S / 10)
        self._end = loop.time() + seconds
        at_once = math.ceil(len(self.boards) / len(self.jobs)) + 2
        refreshing = asyncio.ensure_future(self._refresh())
        harm = asyncio.ensure_future(trouble(self)) if trouble else None
        try:
            begun = loop.time()
            work = [self._serve(job) for job in self.jobs for _ in range(at_once)]
            await asyncio.gather(*work)
            if harm is not None:
                await harm
        finally:
            refreshing.cancel()
            await self.dispatcher.close()
        return self._report(begun)

    async def refresh(self) -> None:
        """Tell the dispatcher which boards there are."""
        await self.dispatcher.seen([board.listing for board in self.boards.values()])

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            await self.refresh()

    async def _check(self, board: str, entry: Entry) -> Check:
        await asyncio.sleep(CHECK_S)
        return Check(1e-3) if self.boards[board].up else Check(None, "no answer")

    async def _serve(self, job: Job) -> None:
        """Batch after batch of one job."""
        loop = asyncio.get_running_loop()
        while loop.time() < self._end:
            left = [next(job.numbers) for _ in range(BATCH)]
            job.taken.update(left)
            turn, job.turn = job.turn, job.turn + BATCH
            while left:
                left = await self._measure(job, left, turn)

    async def _measure(self, job: Job, numbers: list[int], turn: float) -> list[int]:
        """Measure under one lease; what is still to be measured then."""
        loop = asyncio.get_running_loop()
        request = Request(
            next(self._requests),
            Demand(TARGET, job=job.id, priority=job.priority, turn=turn),
            since=loop.time(),
        )
        async with self.dispatcher.lease(request) as held:
            board, done = self.boards[held.lease.board], 0
            self.leases += 1
            self.grants.append(job.id)
            while numbers and not held.lost.is_set():
                seconds = self.trial_s * self.random.uniform(0.5, 1.5)
                begun = loop.time()
                await asyncio.sleep(seconds)
                if not board.up:
                    held.fault("no answer")
                    break
                # As a store does in the transaction that saves the trial.
                if not self.book.accepts(held.lease.token):
                    break
                board.busy.append((begun, seconds))
                job.measured[numbers.pop(0)] += 1
                done += 1
            held.used(Usage(done, done * self.trial_s, done * self.trial_s))
        return numbers

    def _report(self, begun: float) -> dict[str, Any]:
        spans = [span for board in self.boards.values() for span in board.busy]
        inside = [min(start + length, self._end) - start for start, length in spans if start < self._end]
        window = self._end - begun
        measured = sum((job.measured for job in self.jobs), Counter[int]())
        return {
            "boards": len(self.boards),
            "jobs": len(self.jobs),
            "trials": sum(measured.values()),
            "leases": self.leases,
            "trials_per_s": len(inside) / window,
            "utilisation": sum(inside) / window / len(self.boards),
            "lost": sum(len(job.taken - job.measured.keys()) for job in self.jobs),
            "duplicated": sum(count - 1 for job in self.jobs for count in job.measured.values()),
        }


async def _leases_per_s(boards: int, seconds: float) -> float:
    """Leases a second when a board is given back at once: what the dispatcher can do at most."""
    fleet = Fleet(boards, [Job(number) for number in range(8)], trial_s=0.0, book=MemoryBook())
    started = time.perf_counter()
    await fleet.run(seconds)
    return fleet.leases / (time.perf_counter() - started - CHECK_S)


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet_simulation", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--boards", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--trial-s", type=float, default=0.25, help="time of one trial; a lease is for 8")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    jobs = [Job(number, priority=number % 3) for number in range(arguments.jobs)]
    fleet = Fleet(arguments.boards, jobs, trial_s=arguments.trial_s, book=MemoryBook())
    report = asyncio.run(fleet.run(arguments.seconds))
    report["trial_s"] = arguments.trial_s
    report["most_leases_per_s"] = asyncio.run(_leases_per_s(arguments.boards, min(5.0, arguments.seconds)))
    print(
        f"{report['boards']} boards, {report['jobs']} jobs: boards busy {report['utilisation']:.1%} of the "
        f"time, {report['trials_per_s']:.0f} trials/s, {report['lost']} lost, {report['duplicated']} "
        f"duplicated; at most {report['most_leases_per_s']:.0f} leases/s"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
