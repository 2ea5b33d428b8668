"""The worst candidates on a real engine: each gets its error kind, and the board goes on at once."""

from __future__ import annotations

import time
from pathlib import Path

import faulty_kernels
import psutil

from worker.engine.engine import Engine
from worker.fleet.memory_book import MemoryBook
from worker.fleet.times import FleetTimes
from worker.measure.measure import MeasureOptions
from worker.outcome import ErrorKind

OPTIONS = MeasureOptions(min_time_s=0.01, run_timeout_s=10.0)
EXPECTED = {
    "none": None,
    "segfault": ErrorKind.CRASH,
    "beyond": ErrorKind.CRASH,
    "compiler_chatter": None,
    "chatter": None,
    "hang": ErrorKind.RUN_TIMEOUT,
    "compiler_crash": ErrorKind.BUILD_ERROR,
    "wrong": ErrorKind.WRONG_RESULT,
}


def engine(folder: Path, book: MemoryBook) -> Engine:
    """Where what other tests do to a board's time is no sign of its health."""
    return Engine(
        folder, preload=["faulty_kernels"], book=book, times=FleetTimes(drift_limit=1000.0, kin_limit=1000.0)
    )


async def test_each_gets_its_error_kind_and_the_board_is_probed(tmp_path: Path) -> None:
    book = MemoryBook()
    before = set(psutil.Process().children(recursive=True))
    async with engine(tmp_path, book) as running:
        target = running.boards()[0].target
        outcomes = await running.evaluate(faulty_kernels.batch(target, *EXPECTED, "none"), OPTIONS)
        again = await running.evaluate(faulty_kernels.batch(target, "none"), OPTIONS)
        assert again[0].ok
        (board,) = running.boards()
        built = [outcome for outcome in outcomes if outcome.error is not ErrorKind.BUILD_ERROR]
        assert board.health == "good"
        assert sum(usage.trials for _, usage in book.ended.values()) == len(built) + 1
    assert [outcome.error for outcome in outcomes] == [*EXPECTED.values(), None]
    cost = {fault: outcome.cost_s for fault, outcome in zip(EXPECTED, outcomes, strict=False)}
    assert cost["chatter"] > 20 * cost["none"], "it printed"
    assert all(book.accepts(outcome.lease) for outcome in outcomes)
    kinds = [kind for _, kind, _ in book.history]
    assert kinds == ["check", "good_check", "doubt", "check", "good_check"], (
        "the endless one may be the board"
    )
    left = set(psutil.Process().children(recursive=True)) - before
    assert not psutil.wait_procs(left, timeout=60)[1]


async def test_a_crash_costs_the_board_less_than_a_second(tmp_path: Path) -> None:
    async with engine(tmp_path, MemoryBook()) as running:
        target = running.boards()[0].target

        async def seconds(*faults: str) -> float:
            started = time.monotonic()
            outcomes = await running.evaluate(faulty_kernels.batch(target, *faults), OPTIONS)
            assert outcomes[-1].ok
            return time.monotonic() - started

        await seconds("none", "segfault", "none")
        with_crash, without = [], []
        for turn in range(40):  # whatever else the machine does meets both, and is not for ever
            without.append(await seconds("none", "none", "none"))
            with_crash.append(await seconds("none", "segfault", "none"))
            if turn >= 3 and min(with_crash) - min(without) < 1.0:
                break
    assert min(with_crash) - min(without) < 1.0, (with_crash, without)
