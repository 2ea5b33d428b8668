"""A disturbed time is measured again, and never preferred to a quiet one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from formula_engine import AVX2, CONV, TASKS, FakeEngine, job, ran, run
from memory_store import MemoryStore

from kernels import registry
from tuner.job.config_race import GROUPS
from tuner.job.incumbent import behind
from tuner.job.placing import placed
from tuner.log.picks import best_by_layouts
from tuner.log.record import Record, comparable, read_log, write_log
from tuner.search.problem import Problem
from tuner.search.task import TaskSearch
from tuner.spec import Budget, JobSpec, TaskSpec
from worker.demand import Demand
from worker.outcome import ErrorKind, Outcome

CONFIGS = registry.recommendations(CONV, AVX2, any_layout=True)
QUIET = Record(
    CONV, AVX2, CONFIGS[0], registry.kernel(CONFIGS[0].kernel).version, cost_s=2e-3, verified_s=2e-3
)
DISTURBED = replace(
    QUIET,
    config=CONFIGS[1],
    kernel_version=registry.kernel(CONFIGS[1].kernel).version,
    cost_s=1e-3,
    verified_s=None,
    disturbed=True,
)
FAILED = replace(QUIET, cost_s=None, verified_s=None, error=ErrorKind.CRASH)


def search(*records: Record) -> TaskSearch:
    task = TaskSpec(1, CONV, 1)
    found = TaskSearch(task, JobSpec(1, (task,), Demand(AVX2), Budget(trials=9)), Problem.of(CONV, AVX2))
    for record in records:
        found.replace(record)
    return found


def test_it_ranks_behind_quiet_ones_and_before_failures():
    assert sorted([FAILED, DISTURBED, QUIET], key=lambda record: record.rank) == [QUIET, DISTURBED, FAILED]
    assert comparable([FAILED, DISTURBED, QUIET]) == [QUIET]
    assert comparable([FAILED, DISTURBED]) == [DISTURBED]
    assert search(DISTURBED, QUIET).best == QUIET
    assert search(DISTURBED, QUIET).curve.best_s == 2e-3
    assert search(DISTURBED).best == DISTURBED


def test_a_log_keeps_it_and_older_logs_have_none():
    assert list(read_log(write_log([DISTURBED, QUIET]))) == [DISTURBED, QUIET]
    value = QUIET.to_json()
    del value["disturbed"]
    assert Record.from_json(value) == QUIET


def test_a_build_picks_quiet_times_in_whatever_layouts():
    others = (replace(DISTURBED, config=config) for config in CONFIGS)
    blocked = next(record for record in others if record.layouts != QUIET.layouts)
    blocked = replace(blocked, kernel_version=registry.kernel(blocked.config.kernel).version)
    for records in ([blocked, DISTURBED, QUIET], [QUIET, DISTURBED, blocked]):
        assert best_by_layouts(records, AVX2) == {CONV.key: {QUIET.layouts: QUIET}}
    assert best_by_layouts([blocked], AVX2) == {CONV.key: {blocked.layouts: blocked}}


def test_a_place_inside_the_model_is_given_by_quiet_times():
    seconds = {QUIET.config: 2e-3, DISTURBED.config: 1e-3}
    assert len(placed([QUIET, replace(DISTURBED, disturbed=False)], seconds)) == 2
    alike = [replace(QUIET, config=config) for config in seconds]
    assert placed([alike[0], replace(DISTURBED, config=QUIET.config)], seconds) == placed(alike[:1], seconds)
    assert behind([QUIET, DISTURBED], {DISTURBED.config}, 1.5) == []


def test_one_that_looks_as_good_as_the_best_is_measured_again():
    promising, slow = DISTURBED, replace(DISTURBED, cost_s=5e-3)
    same = [replace(QUIET, config=CONFIGS[0])]
    assert promising in search(*same, promising).unsure(3)
    found = search(QUIET, slow).unsure(3)
    assert slow not in found
    verified = replace(DISTURBED, verified_s=1e-3)
    assert verified in search(verified).unsure(3), "whatever it took when it was measured again"


@pytest.mark.parametrize(
    ("record", "again", "verified_s", "disturbed"),
    [
        (DISTURBED, Outcome(cost_s=3e-3), 3e-3, False),
        (replace(DISTURBED, verified_s=1e-3), Outcome(cost_s=3e-3), 3e-3, False),
        (replace(DISTURBED, verified_s=1e-3), Outcome(cost_s=3e-3, disturbed=True), 1e-3, True),
        (QUIET, Outcome(cost_s=1e-3, disturbed=True), 2e-3, False),
        (QUIET, Outcome(cost_s=1e-3), 1e-3, False),
        (DISTURBED, Outcome(error=ErrorKind.CRASH), None, False),
    ],
)
def test_what_measuring_again_makes_of_a_record(record, again, verified_s, disturbed):
    found = search(record).remeasured(record, again)
    assert (found.verified_s, found.disturbed, found.remeasured) == (verified_s, disturbed, 1)


def disturbed(candidate):
    return replace(ran(candidate), disturbed=True)


def test_the_best_of_a_busy_search_are_measured_again_at_its_end():
    engine, store = FakeEngine(answer=disturbed), MemoryStore()
    run(job(tasks=TASKS[:1]), engine, store)
    best = min(store.records.values(), key=lambda record: record.rank)
    assert (best.disturbed, best.verified_s) == (False, pytest.approx(best.cost_s))


def test_a_machine_that_is_always_busy_does_not_hold_up_a_job():
    engine, store = FakeEngine(answer=disturbed, verify_disturbed=True), MemoryStore()
    run(job(tasks=TASKS[:1]), engine, store)
    assert len(engine.verified) == 1 + GROUPS  # once, and then the race
    assert len(store.records) == 40


def test_the_next_job_measures_it_again():
    store = MemoryStore()
    run(job(tasks=TASKS[:1]), FakeEngine(answer=disturbed, verify_disturbed=True), store)
    best = sorted(store.records.values(), key=lambda record: record.rank)[:3]
    again = FakeEngine()
    run(job(id=2, tasks=TASKS[:1], budget=Budget(trials=10), seed=7), again, store)
    asked = [candidate.config for candidate in again.evaluated]
    assert {record.config for record in best} <= set(asked)
    assert len(asked) == len(set(asked)) == 10
    assert sum(not record.disturbed for record in store.records.values()) == 10
