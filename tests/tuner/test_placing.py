"""What a comparison inside the model leaves in records."""

from __future__ import annotations

from dataclasses import replace

from kernels import registry
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from tuner.job.incumbent import behind
from tuner.log.record import Record
from tuner.search.problem import Problem
from tuner.search.task import TaskSearch
from tuner.spec import Budget, JobSpec, TaskSpec
from worker.demand import Demand
from worker.outcome import ErrorKind, Outcome

AVX2 = CATALOGUE["x86-avx2"]
CONV = Conv2d(1, 64, 14, 14, 64, 3, 3, pad=(1, 1, 1, 1))
CONFIGS = registry.recommendations(CONV, AVX2)
FAST, MIDDLE, SLOW = (
    Record(CONV, AVX2, config, 1, cost_s=cost)
    for config, cost in zip(CONFIGS[:3], (1e-3, 2e-3, 9e-3), strict=True)
)


def test_what_is_measured_again_loses_its_place() -> None:
    task = TaskSpec(1, CONV, 1)
    search = TaskSearch(task, JobSpec(1, (task,), Demand(AVX2), Budget(trials=9)), Problem.of(CONV, AVX2))
    placed = replace(FAST, placed_s=1.0, in_place_s=4e-3, verified_s=2e-3)
    again = search.remeasured(placed, Outcome(cost_s=1e-3))
    assert (again.ranking_s, again.placed_s, again.in_place_s) == (1e-3, None, None)
    wrong = search.remeasured(placed, Outcome(error=ErrorKind.WRONG_RESULT, message="off"))
    assert Record.from_json(wrong.to_json()) == wrong


def test_what_another_lab_said_goes_when_it_is_measured_again_here() -> None:
    """Its board may be called like ours, and our board's word is what is withdrawn with ours."""
    task = TaskSpec(1, CONV, 1)
    search = TaskSearch(task, JobSpec(1, (task,), Demand(AVX2), Budget(trials=9)), Problem.of(CONV, AVX2))
    theirs = replace(FAST, cost_s=1e-6, verified_s=1e-6, board="pi-3", imported=True)
    again = search.remeasured(theirs, Outcome(cost_s=5e-3, board="pi-3"))
    assert (again.cost_s, again.verified_s, again.imported) == (5e-3, 5e-3, False)


def test_those_before_the_configs_of_a_faster_untuned_model_fall_behind_them() -> None:
    records = [FAST, MIDDLE, SLOW]
    assert behind(records, {MIDDLE.config}, 1.5) == [replace(FAST, placed_s=3e-3)]
    assert behind(records, {MIDDLE.config, FAST.config}, 1.5) == []
    assert behind(records, {SLOW.config}, 2.0) == [replace(r, placed_s=18e-3) for r in (FAST, MIDDLE)]
    # Nobody knows what another would take.
    assert behind([FAST, MIDDLE], {MIDDLE.config, SLOW.config}, 1.5) == []
    assert behind(records, set(), 1.5) == []
