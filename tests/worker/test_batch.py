"""What a batch makes of boards and workers that fail, without either: the dispatcher is real."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import pytest
import virtual_time

from kernels.float.gemm.kernel import PackedGemm
from kernels.target import CATALOGUE
from kernels.workload.base import Gemm
from worker.batch import Batch
from worker.demand import Demand
from worker.engine.batch_run import ATTEMPTS, KILLS, BatchRun
from worker.engine.scheduler_link import SchedulerGone, WorkerGone
from worker.fleet.book import Check, Listing
from worker.fleet.dispatcher import Dispatcher
from worker.fleet.memory_book import MemoryBook
from worker.measure.measure import MeasureOptions
from worker.outcome import ErrorKind, Outcome

TARGET = CATALOGUE["rpi4"]
WORKLOAD = Gemm(24, 64, 64)
FINE = Outcome(1e-3, measure_s=1.0, timed_s=0.5)
LOST = Outcome(error=ErrorKind.BOARD_LOST, message="no answer", measure_s=1.0)
CUT = Outcome(error=ErrorKind.UPLOAD_ERROR, message="upload cut", measure_s=1.0)
KILL, AWAY = "kill", "away"


class FakeDask:
    """``answers[place]`` are what becomes of a candidate each time it is measured; then it is fine."""

    topic = "outcomes"

    def __init__(self, answers):
        self.answers = {place: list(sequence) for place, sequence in answers.items()}
        self.measured = Counter()
        self.lost_builds = self.waits = 0
        self.boards = []
        self.build_priorities = []

    async def build(self, function, candidate, *rest, priority, **more):
        self.build_priorities.append(priority)
        if len(self.build_priorities) <= self.lost_builds:
            raise SchedulerGone("the scheduler does not answer")
        return candidate

    async def back(self):
        self.waits += 1
        await asyncio.sleep(100)

    @contextmanager
    def stream(self, token, on_outcome):
        self.on_outcome = on_outcome
        yield

    async def run_on(self, board, function, parts, *rest, **more):
        self.boards.append(board)
        outcomes = []
        for index, candidate in enumerate(parts):
            await asyncio.sleep(1)
            place = CONFIGS.index(candidate.config)
            self.measured[place] += 1
            sequence = self.answers.get(place, [])
            answer = sequence.pop(0) if sequence else FINE
            if answer == AWAY:
                raise SchedulerGone("the scheduler does not answer")
            if answer == KILL:
                raise WorkerGone(f"the measure worker of board {board} died")
            outcomes.append(answer)
            self.on_outcome(index, answer)
        return outcomes


CONFIGS = list(PackedGemm().space(WORKLOAD, TARGET))[:4]


def run(answers, boards="ab", lost_builds=0, **demand):
    """(outcomes, Dask client, book, statuses by board) of a batch of four."""

    async def check(board, entry):
        return Check(1e-3)

    async def main():
        book, dask = MemoryBook(virtual_time.clock), FakeDask(answers)
        dask.lost_builds = lost_builds
        dispatcher = Dispatcher(book, check, "me", threaded=False)
        await dispatcher.start()
        await dispatcher.seen([Listing(id, TARGET, "wall", 1) for id in boards])
        came = []
        batch = Batch(
            WORKLOAD, CONFIGS, Demand(TARGET, **demand), on_outcome=lambda *ended: came.append(ended)
        )
        outcomes = await BatchRun(dask, dispatcher, batch, MeasureOptions(), {}).run()
        assert dict(came) == dict(enumerate(outcomes))
        assert len(came) == len(outcomes)
        await asyncio.sleep(1)
        statuses = {status.id: status for status in dispatcher.boards()}
        await dispatcher.close()
        assert all(book.accepts(outcome.lease) for outcome in outcomes)
        return outcomes, dask, book, statuses

    return virtual_time.run(main())


def kinds(outcomes):
    return [outcome.error for outcome in outcomes]


def test_when_the_scheduler_goes_away_nobody_is_to_blame():
    outcomes, dask, book, statuses = run({1: [AWAY] * 9}, lost_builds=2)
    assert kinds(outcomes) == [None] * 4
    assert dask.measured == {0: 1, 1: 10, 2: 1, 3: 1}
    assert (dask.waits, len(dask.build_priorities)) == (2 + 9, 4 + 2)
    assert {status.health for status in statuses.values()} == {"good"}
    assert all(entry.standing.failures == 0 for entry in book.entries().values())


def test_what_kills_two_workers_is_poison_and_the_others_do_not_pay():
    outcomes, dask, _, _ = run({1: [KILL] * 9})
    assert kinds(outcomes) == [None, "poison", None, None]
    assert dask.measured == {0: 1, 1: KILLS, 2: 1, 3: 1}
    assert "killed 2 workers" in outcomes[1].message


def test_one_death_is_bad_luck():
    outcomes, dask, _, _ = run({1: [KILL]})
    assert kinds(outcomes) == [None] * 4
    assert dask.measured == {0: 1, 1: 2, 2: 1, 3: 1}


def test_what_a_board_failed_is_measured_on_another_and_the_rest_is_kept():
    outcomes, dask, book, statuses = run({2: [LOST], 3: [LOST]})
    assert kinds(outcomes) == [None] * 4
    assert dask.boards == ["a", "b"]
    assert dask.measured == {0: 1, 1: 1, 2: 2, 3: 2}
    assert ("a", "fault", {"reason": "no answer"}) in book.history
    # Checked since, and what it failed is none of its trials.
    assert statuses["a"].health == "good"
    assert sum(usage.trials for _, usage in book.ended.values()) == 4


def test_a_board_that_failed_under_a_trial_and_was_mended_is_checked():
    mended = replace(FINE, fault="the agent was gone")
    outcomes, _, book, statuses = run({1: [mended]}, boards="a")
    assert kinds(outcomes) == [None] * 4
    assert ("a", "fault", {"reason": "the agent was gone"}) in book.history
    assert statuses["a"].health == "good"


def test_a_board_on_which_a_candidate_did_not_end_is_checked_and_not_blamed():
    _, _, book, statuses = run({1: [Outcome(error=ErrorKind.RUN_TIMEOUT, message="not done")]}, boards="a")
    assert [kind for _, kind, _ in book.history] == ["check", "good_check", "doubt", "check", "good_check"]
    assert statuses["a"].health == "good"


def test_the_only_board_gets_it_again_after_its_check():
    outcomes, dask, book, _ = run({2: [LOST]}, boards="a")
    assert kinds(outcomes) == [None] * 4
    assert dask.boards == ["a", "a"]
    checks = [kind for _, kind, _ in book.history if kind == "check"]
    assert len(checks) == 2


def test_what_every_board_fails_ends_as_lost_in_the_end():
    outcomes, dask, _, _ = run({2: [LOST] * 9}, boards="abcd")
    assert kinds(outcomes) == [None, None, "board_lost", None]
    assert dask.measured[2] == ATTEMPTS
    assert "on a, b, c: no answer" in outcomes[2].message


@pytest.mark.parametrize("boards", ["a", "ab"])
def test_a_candidate_that_cannot_be_loaded_parks_no_board(boards):
    outcomes, dask, _, statuses = run({place: [CUT] * 9 for place in range(4)}, boards)
    assert kinds(outcomes) == ["upload_error"] * 4
    assert all(status.health == "good" for status in statuses.values())
    assert dask.measured == dict.fromkeys(range(4), 2)


def test_builds_go_in_the_order_of_leases():
    """Of a job of higher priority first, then by their turn."""
    demands = [{"priority": 1, "turn": 900}, {"turn": 8}, {"turn": 16}, {"priority": -1}]
    found = [run({}, **demand)[1].build_priorities[0] for demand in demands]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == len(found)
