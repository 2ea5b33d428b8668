"""The runner and its boards: batches side by side, streamed outcomes, lost leases, fair shares."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from formula_engine import AVX2, TASKS, FakeEngine, Log, job, ran, run
from memory_store import MemoryStore

from tuner.job.fairness import VirtualTime
from tuner.job.runner import AHEAD
from tuner.spec import Budget
from tuner.states import JobState
from worker.candidate import Candidate
from worker.demand import Demand
from worker.outcome import Outcome


def test_the_engine_is_told_which_boards_will_do_and_whose_they_are():
    engine = FakeEngine()
    run(job(id=7, tags=frozenset({"rack-2"}), priority=3), engine, MemoryStore())
    wanted = Demand(AVX2, 1, frozenset({"rack-2"}), "wall", job=7, priority=3)
    assert {replace(demand, turn=0.0) for demand in engine.demands} == {wanted}


def test_more_boards_get_more_batches():
    engine = FakeEngine(trial_s=0.002)
    engine.boards = 5
    run(job(budget=Budget(trials=200)), engine, MemoryStore())
    assert engine.most_flying == 5 + AHEAD


@pytest.mark.parametrize("streams", [True, False])
def test_each_outcome_is_saved_once(streams):
    class Counting(MemoryStore):
        saves = 0

        def save(self, job_id, trials, elapsed_s):
            self.saves += len(trials)
            return super().save(job_id, trials, elapsed_s)

    engine, store, log = FakeEngine(trial_s=0.001), Counting(), Log()
    engine.streams = streams
    assert run(job(), engine, store, log) is JobState.DONE
    assert store.saves == len(store.records) == len(log.of("trial")) == 40


def test_what_a_batch_had_measured_when_it_broke_is_not_lost():
    engine, store = FakeEngine(), MemoryStore()
    engine.dies_after = 5
    run(job(), engine, store)
    measured = {candidate.config for candidate in engine.evaluated[:5]}
    assert measured <= {record.config for record in store.records.values() if record.error is None}


def test_what_was_measured_under_a_lost_lease_does_not_count_and_is_measured_again():
    leases = iter(range(1, 10_000))

    def leased(candidate: Candidate) -> Outcome:
        return replace(ran(candidate), lease=next(leases))

    engine, store, log = FakeEngine(leased), MemoryStore(), Log()
    store.lost_leases = {1, 5, 6}
    assert run(job(), engine, store, log) is JobState.DONE
    assert len(store.records) == len(log.of("trial")) == 40
    assert len(engine.evaluated) == 43
    measured = Counter(engine.evaluated)
    assert sorted(measured.values())[-3:] == [2, 2, 2]
    assert all(trial.lease not in store.lost_leases for trial in store.saved[1].values())
    numbers = Counter((trial.task_id, trial.number) for trial in store.trials(1))
    assert set(numbers.values()) == {1}


def test_a_trial_is_offered_again_each_time_its_lease_is_lost_but_not_without_end():
    class Doomed(FakeEngine):
        """Whose first candidate loses its lease ``times``."""

        def __init__(self, times):
            super().__init__(self.leased)
            self.times = times

        def leased(self, candidate):
            first = candidate == self.evaluated[0]
            self.times -= first
            return replace(ran(candidate), lease=9 if first and self.times >= 0 else 0)

    for times, analysed in ((3, True), (99, False)):
        engine, store = Doomed(times), MemoryStore()
        store.lost_leases = {9}
        assert run(job(tasks=TASKS[:1]), engine, store) is JobState.DONE
        assert len(store.records) == 40
        assert engine.evaluated.count(engine.evaluated[0]) == 4
        assert any(trial.number == 0 for trial in store.trials(1)) is analysed


def test_a_best_measured_again_under_a_lost_lease_stays_as_it_was():
    class Late(FakeEngine):
        async def verify(self, batch):
            found = await super().verify(batch)
            return [replace(outcome, cost_s=1e-9, lease=9) for outcome in found]

    store = MemoryStore()
    store.lost_leases = {9}
    assert run(job(), Late(), store) is JobState.DONE
    assert all(record.verified_s is None for record in store.records.values())


def test_kinds_of_boards_have_times_of_their_own():
    fair = VirtualTime()
    fair.finish(1000, "fast")
    slow = [fair.begin(1, 8, "slow") for _ in range(3)]
    assert slow == [0, 8, 16]
    assert fair.begin(2, 8, "slow") == 0
    assert fair.begin(3, 8, "fast") == 1000


def test_a_short_job_is_not_queued_behind_a_long_one():
    fair = VirtualTime()
    long = [fair.begin(1, 8) for _ in range(5)]
    fair.finish(long[0])
    fair.finish(long[1])
    short = fair.begin(2, 8)
    assert long[1] <= short < long[2]
    engine = FakeEngine()
    run(job(), engine, MemoryStore())
    turns = [demand.turn for demand in engine.demands]
    assert turns == sorted(turns)
