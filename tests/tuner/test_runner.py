"""The job runner against an engine without hardware."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from formula_engine import AVX2, LOST, OTHER, TASKS, TINY, FakeEngine, Log, job, ran, run
from memory_store import MemoryStore

from tuner.job import reports, runner
from tuner.job.runner import AHEAD, run_job
from tuner.job.streak import HOPELESS
from tuner.search.problem import Problem
from tuner.search.task import TaskSearch
from tuner.spec import Budget, TaskSpec
from tuner.states import JobState, TaskState
from worker.candidate import Candidate
from worker.outcome import ErrorKind, Outcome


def test_spends_the_trials_it_has_and_no_more():
    engine, store, log = FakeEngine(trial_s=0.002), MemoryStore(), Log()
    assert run(job(), engine, store, log) is JobState.DONE
    assert len(engine.evaluated) == len(store.records) == len(log.of("trial")) == 40
    assert len(set(engine.evaluated)) == 40
    assert engine.most_flying == 1 + AHEAD
    assert store.jobs == [(JobState.RUNNING, ""), (JobState.DONE, "")]
    assert [name for name, _ in log.events][-1] == "end"


def test_trial_0_is_the_analysis_even_in_the_smallest_budget():
    engine, store, log = FakeEngine(), MemoryStore(), Log()
    run(job(budget=Budget(trials=2), strategy="random"), engine, store, log)
    picks = [Problem.of(task.workload, AVX2).seeds[0] for task in TASKS]
    assert {candidate.config for candidate in engine.evaluated} == set(picks)
    assert [trial["number"] for trial in log.of("trial")] == [0, 0]


def test_a_budget_too_small_for_every_task_says_so():
    store = MemoryStore()
    assert run(job(budget=Budget(trials=1)), FakeEngine(), store) is JobState.INCOMPLETE
    assert sorted(store.tasks.values()) == [TaskState.DONE], "the task without a trial was not worked on"
    message = store.jobs[-1][1]
    assert message.startswith(
        "1 of 2 tasks have no config that ran (the budget ended before their first trial)"
    )


def test_a_job_that_its_deadline_ends_says_so():
    store = MemoryStore()
    run(job(deadline=time.time() - 1), FakeEngine(), store)
    assert store.jobs[-1][1].endswith("; its deadline ended it")
    problem = Problem.of(TASKS[0].workload, AVX2)
    for overdue, why in ((True, "its deadline came"), (False, "the budget ended")):
        untried = TaskSearch(TASKS[0], job(), problem, [])
        assert f"({why} before their first trial)" in reports.verdict([untried], overdue)[1]


def test_numbers_are_unique_within_a_task():
    log = Log()
    run(job(), FakeEngine(), MemoryStore(), log)
    numbers = Counter((trial["task"], trial["number"]) for trial in log.of("trial"))
    assert set(numbers.values()) == {1}
    assert {(1, 0), (2, 0)} <= set(numbers)


def test_the_estimate_is_the_weighted_sum_of_the_best():
    store, log = MemoryStore(), Log()
    run(job(), FakeEngine(), store, log)
    best = {task.id: min(r.ranking_s for r in store.known(task.workload, AVX2, "wall", 1)) for task in TASKS}
    assert log.of("progress")[-1]["estimated_ms"] == pytest.approx(1e3 * (3 * best[1] + best[2]))


def test_the_best_few_of_each_task_are_measured_again():
    engine, store = FakeEngine(verify_factor=0.9), MemoryStore()
    run(job(), engine, store)
    for task in TASKS:
        known = store.known(task.workload, AVX2, "wall", 1)
        by_cost = sorted(known, key=lambda record: record.cost_s)
        assert [r.verified_s for r in by_cost[:3]] == pytest.approx([0.9 * r.cost_s for r in by_cost[:3]])
        # Beside them trial 0, so that what the search has gained is told fairly.
        again = [record.config for record in by_cost if record.verified_s is not None]
        first = Problem.of(task.workload, AVX2).seeds[0]
        assert set(again) == {*(record.config for record in by_cost[:3]), first}


def test_nothing_is_measured_again_by_a_clock_without_luck():
    clock = "simulated:rpi4-sim:0123456789ab"
    engine, store = FakeEngine(lambda candidate: replace(ran(candidate), clock=clock)), MemoryStore()
    assert run(job(clock=clock), engine, store) is JobState.DONE
    assert len(store.records) == 40
    assert engine.verified == []


def test_a_lucky_first_measurement_does_not_win():
    """When the best few turn out slower, the next ones are looked at until the fastest is verified."""
    engine, store = FakeEngine(verify_factor=1.15), MemoryStore()
    run(job(tasks=TASKS[:1]), engine, store)
    best = min(store.records.values(), key=lambda record: record.ranking_s)
    assert best.verified_s is not None
    assert len(engine.verified) > 1


def test_a_noisy_round_does_not_cost_the_best_its_place():
    """When all of the first round came out slow, its best is measured beside those that take its place."""
    engine, store = FakeEngine(), MemoryStore()
    engine.noisy_rounds = 1
    run(job(tasks=TASKS[:1]), engine, store)
    fastest = min(store.records.values(), key=lambda record: record.cost_s)
    assert min(store.records.values(), key=lambda record: record.ranking_s) is fastest
    assert fastest.config in engine.verified[0]
    assert fastest.config in engine.verified[1]
    assert fastest.verified_s == pytest.approx(fastest.cost_s)


def test_a_best_that_is_wrong_when_measured_again_is_no_best():
    engine, store, log = FakeEngine(), MemoryStore(), Log()
    engine.first_is_wrong = True
    assert run(job(tasks=TASKS[:1]), engine, store, log) is JobState.DONE
    (failed,) = [record for record in store.records.values() if record.error]
    assert (failed.config, failed.error) == (engine.verified[0][0], ErrorKind.WRONG_RESULT)
    assert failed.cost_s is None
    best = min((r for r in store.records.values() if not r.error), key=lambda record: record.ranking_s)
    assert best.verified_s is not None
    assert log.of("best")[-1]["config"] == best.config.to_json()


def test_what_is_known_is_reused_and_counted():
    engine, store, log = FakeEngine(), MemoryStore(), Log()
    run(job(), engine, store)
    before = set(store.records)
    again = FakeEngine()
    run(job(id=2, budget=Budget(trials=50), seed=5), again, store, log)
    reused = [trial for trial in log.of("trial") if trial["reused"]]
    assert len(reused) == 40
    assert len(again.evaluated) == 10
    assert len(store.records) == 50
    assert not {(c.workload.key, c.config.key) for c in again.evaluated} & {(k[0], k[3]) for k in before}


def test_the_same_job_again_measures_nothing():
    store = MemoryStore()
    run(job(), FakeEngine(), store)
    again = FakeEngine()
    assert run(job(id=2), again, store) is JobState.DONE
    assert again.evaluated == []


def test_records_of_another_kernel_version_are_not_reused():
    store, engine = MemoryStore(), FakeEngine()
    run(job(), FakeEngine(), store)
    old = [replace(record, kernel_version=99) for record in store.records.values()]
    store.records = {record.identity: record for record in old}
    run(job(id=2), engine, store)
    assert len(engine.evaluated) == 40


def test_more_is_known_than_the_budget_holds():
    store = MemoryStore()
    run(job(tasks=TASKS[:1]), FakeEngine(), store)
    best = min(record.cost_s for record in store.records.values())
    engine, log = FakeEngine(), Log()
    run(job(id=2, budget=Budget(trials=10)), engine, store, log)
    assert [candidate.workload for candidate in engine.evaluated] == [OTHER]
    assert min(trial["cost_s"] for trial in log.of("trial") if trial["task"] == 1) == best
    assert len(log.of("trial")) == 10


def test_what_the_analysis_takes_is_measured_where_only_the_best_is_known():
    """After a log of best configs was loaded: without it nothing could be said of before tuning."""
    store = MemoryStore()
    run(job(), FakeEngine(), store)
    best = {}
    for record in store.records.values():
        key = record.workload.key
        analysis = Problem.of(record.workload, AVX2).seeds[0]
        if record.config != analysis and (key not in best or record.rank < best[key].rank):
            best[key] = record
    store.records = {record.identity: record for record in best.values()}
    engine = FakeEngine()
    run(job(id=2, budget=Budget(trials=12)), engine, store)
    picks = {Problem.of(task.workload, AVX2).seeds[0] for task in TASKS}
    assert picks <= {candidate.config for candidate in engine.evaluated}


def test_a_killed_job_resumes_and_repeats_nothing():
    store = MemoryStore()

    async def killed() -> FakeEngine:
        engine = FakeEngine(trial_s=0.01)
        task = asyncio.create_task(run_job(job(), engine, store, Log(), asyncio.Event()))
        while len(store.records) < 12:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return engine

    asyncio.run(killed())
    assert store.jobs[-1][0] is JobState.QUEUED
    saved = {(key[0], key[3]) for key in store.records}
    engine, log = FakeEngine(), Log()
    assert run(job(elapsed_s=store.elapsed), engine, store, log) is JobState.DONE
    assert not saved & {(c.workload.key, c.config.key) for c in engine.evaluated}
    assert len(saved) + len(engine.evaluated) == len(store.records) == 40
    numbers = Counter((trial.task_id, trial.number) for trial in store.trials(1))
    assert set(numbers.values()) == {1}


def test_what_was_lost_and_is_measured_again_after_resuming_counts_once():
    store, picks = MemoryStore(), {Problem.of(task.workload, AVX2).seeds[0] for task in TASKS}

    def analysis_is_lost(candidate: Candidate) -> Outcome:
        return LOST if candidate.config in picks else ran(candidate)

    async def stopped() -> None:
        work = run_job(job(), FakeEngine(analysis_is_lost, trial_s=0.01), store, Log(), asyncio.Event())
        task = asyncio.create_task(work)
        while len(store.records) < 12:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    log = Log()
    assert run(job(elapsed_s=store.elapsed), FakeEngine(), store, log) is JobState.DONE
    assert len(store.trials(1)) == 40
    assert (log.of("progress")[-1]["trials"], log.of("progress")[-1]["failed"]) == (40, 2)


def test_a_seconds_budget_ends_in_time_with_the_best_verified():
    engine, store = FakeEngine(trial_s=0.02), MemoryStore()
    started = time.monotonic()
    assert run(job(budget=Budget(seconds=2.0)), engine, store) is JobState.DONE
    took = time.monotonic() - started
    # The board needs 20 ms a trial: without an end there would be thousands more to try, minutes long.
    assert len(TASKS) <= len(engine.evaluated) <= 100
    assert took < 60
    assert all(
        min(store.known(t.workload, AVX2, "wall", 1), key=lambda r: r.ranking_s).verified_s for t in TASKS
    )


def test_on_a_slow_board_every_task_gets_one_trial_before_any_gets_two():
    """Nothing says how slow it is before the first trials are back."""
    engine, log = FakeEngine(trial_s=0.4), Log()
    run(job(budget=Budget(seconds=8.0), strategy="random"), engine, MemoryStore(), log)
    first = [trial["task"] for trial in log.of("trial")][: len(TASKS)]
    assert sorted(first) == [task.id for task in TASKS]


def test_progress_is_told_while_the_best_are_measured_again_and_the_model_is_built(monkeypatch):
    """Both may take half of a short job: who watches sees the time left fall until it ends."""
    monkeypatch.setattr("tuner.job.runner.PROGRESS_S", 0.01)
    monkeypatch.setattr("tuner.job.reserve.LEAST_S", 0.1)
    monkeypatch.setattr("tuner.job.reserve.TASK_S", 0.1)
    log, seen = Log(), []

    class Slow(FakeEngine):
        async def verify(self, batch):
            await self.three_more("verify")
            return await super().verify(batch)

        async def beside(self, function, payload, demand, **limits):
            await self.three_more(function.rpartition(":")[2])
            return await super().beside(function, payload, demand, **limits)

        async def three_more(self, what):
            wanted = len(log.of("progress")) + 3
            async with asyncio.timeout(60):
                while len(log.of("progress")) < wanted:
                    await asyncio.sleep(0.01)
            seen.append(what)

    engine = Slow(trial_s=0.02)
    assert run(job(budget=Budget(seconds=2.0), model="m"), engine, MemoryStore(), log) is JobState.DONE
    assert {"verify", "deliver_in_child"} <= set(seen)
    told = log.of("progress")
    left = [each["eta_s"] for each in told if each["eta_s"] is not None]
    assert left == sorted(left, reverse=True)
    # Whoever is late does not know when it ends.
    assert {each["phase"] for each in told if each["eta_s"] is None} <= {"building"}
    phases = list(dict.fromkeys(each["phase"] for each in told))
    assert phases == ["searching", "remeasuring", "comparing", "building"]
    assert [name for name, _ in log.events][-1] == "end"


def test_no_time_left_is_told_once_the_trials_are_spent():
    """What comes then takes as long as it takes: neither 0 s nor the time of trials that will not be."""
    log = Log()
    spec = job(budget=Budget(trials=40), model="m")
    assert run(spec, FakeEngine(trial_s=0.02), MemoryStore(), log) is JobState.DONE
    after = [each for each in log.of("progress") if each["phase"] != "searching"]
    assert {each["phase"] for each in after} == {"remeasuring", "comparing", "building"}
    assert {each["eta_s"] for each in after} == {None}


def test_time_used_before_counts():
    engine = FakeEngine(trial_s=0.02)
    run(job(budget=Budget(seconds=60.0), elapsed_s=59.5), engine, MemoryStore())
    assert len(engine.evaluated) < 40


def test_cancel_keeps_what_was_measured():
    store = MemoryStore()

    async def main() -> JobState:
        cancelled = asyncio.Event()
        task = asyncio.create_task(run_job(job(), FakeEngine(trial_s=0.01), store, Log(), cancelled))
        while len(store.records) < 8:
            await asyncio.sleep(0.01)
        cancelled.set()
        return await asyncio.wait_for(task, 100)

    assert asyncio.run(main()) is JobState.CANCELLED
    assert 8 <= len(store.records) < 40
    assert all(record.error is None for record in store.records.values())


def test_small_spaces_are_exhausted():
    size = len(list(Problem.of(TINY, AVX2).space))
    engine, store = FakeEngine(), MemoryStore()
    spec = job(tasks=(TaskSpec(1, TINY),), budget=Budget(trials=500), strategy="model")
    assert run(spec, engine, store) is JobState.DONE
    assert len(engine.evaluated) == size
    assert store.tasks[1] is TaskState.EXHAUSTED


def test_a_plateau_ends_the_search():
    def flat(candidate: Candidate) -> Outcome:
        return replace(ran(candidate), cost_s=1e-3)

    engine, store = FakeEngine(flat), MemoryStore()
    run(job(budget=Budget(trials=10_000)), engine, store)
    assert store.tasks == {1: TaskState.PLATEAU, 2: TaskState.PLATEAU}
    assert len(engine.evaluated) < 300
    assert "it ended before its budget: the last trials of 2 layers gained nothing" in store.jobs[-1][1]


def test_a_plateau_is_not_blamed_where_the_deadline_ended_the_search(monkeypatch):
    store, engine = MemoryStore(), FakeEngine(trial_s=0.05)

    def the_other_gains_little_but_for_ever(candidate: Candidate) -> Outcome:
        flat = candidate.workload != OTHER
        return replace(ran(candidate), cost_s=1e-3 if flat else 1e-7 * 0.97 ** len(engine.evaluated))

    def now() -> float:
        return 2.0 if store.tasks.get(1) is TaskState.PLATEAU else 0.0

    engine.answer = the_other_gains_little_but_for_ever
    monkeypatch.setattr(runner, "time", SimpleNamespace(time=now, monotonic=time.monotonic))
    run(job(budget=Budget(trials=10_000), deadline=1.0), engine, store)
    assert store.tasks == {1: TaskState.PLATEAU, 2: TaskState.DONE}
    assert "its deadline ended it" in store.jobs[-1][1]
    assert "before its budget" not in store.jobs[-1][1]


def test_the_analysis_strategy_measures_one_config_a_task():
    engine, store = FakeEngine(), MemoryStore()
    assert run(job(strategy="analysis"), engine, store) is JobState.DONE
    assert len(engine.evaluated) == len(TASKS)


def test_failing_candidates_do_not_stop_the_job():
    def odd_ones_crash(candidate: Candidate) -> Outcome:
        digest = hashlib.sha256(candidate.config.key.encode()).digest()[0]
        return Outcome(error=ErrorKind.CRASH, message="SIGSEGV") if digest % 2 else ran(candidate)

    log = Log()
    store = MemoryStore()
    assert run(job(), FakeEngine(odd_ones_crash), store, log) is JobState.DONE
    errors = Counter(trial["error"] for trial in log.of("trial"))
    assert errors["crash"] > 5
    assert errors[None] > 5
    assert log.of("progress")[-1]["failed"] == errors["crash"]


def test_gives_up_after_equal_build_failures_and_says_why():
    def broken(candidate: Candidate) -> Outcome:
        where = candidate.config.key[:4]
        return Outcome(error=ErrorKind.BUILD_ERROR, message=f"0x{where}: cannot execute zig")

    engine, store = FakeEngine(broken), MemoryStore()
    assert run(job(budget=Budget(trials=500)), engine, store) is JobState.FAILED
    assert len(engine.evaluated) < 2 * HOPELESS + 8 * (1 + AHEAD)
    state, message = store.jobs[-1]
    assert state is JobState.FAILED
    assert "build_error" in message
    assert "cannot execute zig" in message


def test_a_failure_of_the_engine_is_one_of_the_trials():
    calls = iter(range(10_000))

    class Shaky(FakeEngine):
        async def evaluate(self, batch):
            if next(calls) == 1:
                raise ConnectionError("scheduler restarted")
            return await super().evaluate(batch)

    log = Log()
    assert run(job(), Shaky(), MemoryStore(), log) is JobState.DONE
    assert "board_lost" in {trial["error"] for trial in log.of("trial")}


def test_a_lost_board_does_not_rule_out_a_config():
    store = MemoryStore()
    assert run(job(), FakeEngine(lambda _: LOST), store) is JobState.FAILED
    lost = set(store.records)
    engine = FakeEngine()
    assert run(job(budget=Budget(trials=200)), engine, store) is JobState.DONE
    assert lost & {key for key, record in store.records.items() if record.error is None}


def test_a_job_without_any_result_fails_and_names_the_errors():
    engine, store = (
        FakeEngine(lambda _: Outcome(error=ErrorKind.WRONG_RESULT, message="off by 1")),
        MemoryStore(),
    )
    assert run(job(budget=Budget(trials=6)), engine, store) is JobState.FAILED
    assert "wrong_result" in store.jobs[-1][1]


def test_a_store_that_fails_fails_the_job():
    class Full(MemoryStore):
        def save(self, job_id, trials, elapsed_s):
            raise OSError("disk full")

    store = Full()
    assert run(job(), FakeEngine(), store) is JobState.FAILED
    assert "disk full" in store.jobs[-1][1]
