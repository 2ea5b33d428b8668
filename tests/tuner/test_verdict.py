"""The verdict of a job: untuned over delivered, with an interval, and what happens where the untuned wins."""

from __future__ import annotations

import random

import pytest
from formula_engine import AVX2, TASKS, FakeEngine, Log, job, run
from memory_store import MemoryStore

from kernels import registry
from kernels.space import Config
from tuner.backend.check import Check, Delivery
from tuner.backend.verdict import DELIVERED, UNTUNED, Verdict, student_975
from tuner.job.delivery import RACE_S
from tuner.log.record import Record
from tuner.spec import Budget
from tuner.states import JobState
from worker.outcome import Answer

LOST, WON = Verdict(1e-3, 2e-3, 0.5, 0.49, 0.51, 25), Verdict(2e-3, 1e-3, 2.0, 1.9, 2.1, 25)


def groups(gain: float, noise: float, count: int, seed: int) -> list[dict[str, list[float]]]:
    """Turns of two models, of which one is so many times as fast, each group with an error of its own."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        factor = {name: draw.gauss(1, noise) for name in (UNTUNED, DELIVERED)}
        found.append(
            {
                UNTUNED: [gain * factor[UNTUNED] * draw.gauss(1, 0.001) for _ in range(5)],
                DELIVERED: [factor[DELIVERED] * draw.gauss(1, 0.001) for _ in range(5)],
            }
        )
    return found


def test_the_interval_holds_the_truth_19_times_in_20():
    held = [Verdict.of(groups(1.05, 0.01, 5, seed)) for seed in range(2000)]
    share = sum(each.low <= 1.05 <= each.high for each in held) / len(held)
    assert 0.935 < share < 0.965
    # One group's turns alone would promise far more than they know.
    assert sum(each.high - each.low for each in held) / len(held) > 0.02


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (20, 2.086)]
)
def test_students_quantiles(freedom: int, quantile: float):
    assert student_975(freedom) == pytest.approx(quantile, rel=2e-3)


def test_what_is_said():
    assert "times as fast as untuned (1.5e+03 ms, 1." in str(Verdict.of(groups(1.5, 0.01, 5, 0)))
    assert "no difference" in str(Verdict.of(groups(1.001, 0.02, 5, 0)))
    exact = Verdict.of([{UNTUNED: [3e-3], DELIVERED: [2e-3]}])
    assert (exact.gain, exact.low, exact.high, exact.difference) == (1.5, 1.5, 1.5, True)
    assert str(exact) == "1.50 times as fast as untuned (3 ms)"
    alone = Verdict.of([{DELIVERED: [2e-3], "onnxruntime": [3e-3]}], "onnxruntime")
    assert (alone.same, alone.gain, alone.peer_s) == (True, 1.0, 3e-3)
    assert Verdict.from_json(exact.to_json()) == exact


def test_a_model_that_is_as_fast_did_not_lose():
    assert not Verdict(1.0, 1.0, 0.995, 0.98, 1.01, 25).lost
    assert Verdict(1.0, 1.0, 0.995, 0.992, 0.998, 25).lost
    assert Verdict(1.0, 1.0, 0.97, 0.93, 1.01, 25).lost
    assert Verdict(1.0, 1.0, 0.999, 0.999, 0.999, 1).lost


def test_several_sets_of_shapes_are_one_run_with_each():
    found = Verdict.of_all([Verdict(1.0, 0.5, 2.0, 1.9, 2.1, 25), Verdict(3.0, 3.0, 1.0, 0.9, 1.1, 30)])
    assert (found.gain, found.rounds, found.same) == (4 / 3.5, 25, False)
    assert found.low == pytest.approx(4 / (1 / 1.9 + 3 / 0.9))
    assert Verdict.of_all([]) is None


def delivering(verdicts: list[Verdict], untuned: dict[str, Config]) -> FakeEngine:
    """An engine that builds right models, of which each race ends by the next of ``verdicts``.

    Where ``untuned`` has no configs yet, it gets the last that was sent, and so no fast one.
    """
    engine, left = FakeEngine(), list(verdicts)

    def deliver(payload: dict) -> Answer:
        records = [Record.from_json(each) for each in payload["records"]]
        for record in records:
            untuned.setdefault(record.workload.key, record.config)
        assert 0 < payload["race"] <= RACE_S
        delivery = Delivery(Check(1e-4), 1e-3, 0.0, 0.0, verdict=left.pop(0))
        configs = [{"key": key, "config": config.to_json()} for key, config in untuned.items()]
        return Answer({**delivery.to_json(), "untuned": configs}, lease=0)

    engine.deliver = deliver
    return engine


def slow_configs(store: MemoryStore) -> dict[str, Config]:
    """Of each task a config that no trial had."""
    known = {record.config for record in store.records.values()}
    return {
        task.workload.key: next(
            config for config in registry.search_space(task.workload, AVX2) if config not in known
        )
        for task in TASKS
    }


def test_a_model_that_wins_is_delivered_as_it_is():
    engine, store = delivering([WON], {}), MemoryStore()
    assert run(job(model="/models/one.onnx"), engine, store) is JobState.DONE
    assert store.jobs[-1] == (JobState.DONE, "")
    assert [each.verdict for each in store.deliveries] == [WON]
    assert all(record.placed_s is None for record in store.records.values())


@pytest.mark.parametrize("clock", ["wall", "simulated:a"])
def test_where_the_untuned_model_wins_its_configs_rank_first(clock: str):
    """As the tuned one took twice its time, so do all before its configs, and more while it still loses."""
    store, log, untuned = MemoryStore(), Log(), {}
    engine = delivering([LOST, LOST, WON], untuned)
    assert run(job(model="/models/one.onnx", clock=clock), engine, store, log) is JobState.DONE
    assert "won with 1 ms, the tuned one took 2 ms" in store.jobs[-1][1]
    assert [each.verdict for each in store.deliveries] == [LOST, LOST, WON]
    for task in TASKS:
        known = [r for r in store.known(task.workload, AVX2, "wall", 1) if not r.error]
        first, second = sorted(known, key=lambda record: record.ranking_s)[:2]
        assert first.config == untuned[task.workload.key]
        assert first.placed_s is None
        assert second.ranking_s == 8 * first.ranking_s
        last = [best for best in log.of("best") if best["task"] == task.id][-1]
        assert last["config"] == first.config.to_json()


def test_configs_of_an_untuned_model_that_no_trial_had_are_measured_when_it_wins():
    """Beyond the budget, which was for one trial of each task."""
    store = MemoryStore()
    asked = slow_configs(store)
    engine = delivering([LOST, WON], asked)
    spec = job(model="/models/one.onnx", budget=Budget(trials=len(TASKS)), strategy="analysis")
    assert run(spec, engine, store) is JobState.DONE
    for key, config in asked.items():
        known = [r for r in store.records.values() if r.workload.key == key and not r.error]
        assert len(known) > 1
        assert min(known, key=lambda record: record.ranking_s).config == config


def test_layers_without_a_config_that_ran_are_no_reason_not_to_race():
    """They have the analysis's in both models, which nobody measures for that: the result is whole."""
    store = MemoryStore()
    engine = delivering([LOST, WON], slow_configs(store))
    spec = job(model="/models/one.onnx", budget=Budget(trials=1), strategy="analysis")
    assert run(spec, engine, store) is JobState.DONE
    assert "1 of 2 tasks had no trial in the budget and have the untuned config" in store.jobs[-1][1]
    assert [each.verdict for each in store.deliveries] == [LOST, WON]
    assert len({record.workload.key for record in store.records.values()}) == 1
