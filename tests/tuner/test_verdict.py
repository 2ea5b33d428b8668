"""The verdict of a job: untuned over delivered, with an interval, and what happens where the untuned wins."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from formula_engine import AVX2, TASKS, FakeEngine, Log, job, run
from memory_store import MemoryStore

from tuner.backend.check import Check, Delivery
from tuner.backend.verdict import DELIVERED, UNTUNED, Verdict, student_975
from tuner.job.delivery import RACE_S
from tuner.spec import Budget
from tuner.states import JobState
from worker.outcome import Answer

CHILD = "tuner.job.delivery_child:deliver_in_child"
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


def delivering(verdict: Verdict, **instead: Any) -> FakeEngine:
    """An engine that builds a right model; its race ends by ``verdict``; ``instead`` are fields of
    the untuned model's delivery where that wins."""
    engine = FakeEngine()

    def deliver(payload: dict) -> Answer:
        assert 0 < payload["race"] <= RACE_S
        found = Delivery(Check(1e-4), 2e-3, 0.0, 0.0, verdict=verdict).to_json()
        if verdict.lost:
            untuned = {"seconds": 1e-3, "verdict": verdict.of_untuned, "untuned": True, **instead}
            found |= {"instead": Delivery(**{"check": Check(1e-4), **untuned}).to_json()}
        return Answer(json.loads(json.dumps(found)), lease=0)

    engine.deliver = deliver
    return engine


def test_a_model_that_wins_is_delivered_as_it_is():
    engine, store = delivering(WON), MemoryStore()
    assert run(job(model="/models/one.onnx"), engine, store) is JobState.DONE
    assert store.jobs[-1] == (JobState.DONE, "")
    assert [each.verdict for each in store.deliveries] == [WON]
    assert all(record.placed_s is None for record in store.records.values())
    assert store.log(1)


@pytest.mark.parametrize("clock", ["wall", "simulated:a"])
def test_where_the_untuned_model_wins_it_is_delivered_without_a_second_build(clock: str):
    """Its configs rank first then, as surely as the tuned model was slower, and its log builds it."""
    store, log, engine = MemoryStore(), Log(), delivering(LOST)
    assert run(job(model="/models/one.onnx", clock=clock), engine, store, log) is JobState.DONE
    assert "won with 1 ms, the tuned one took 2 ms: the untuned model is delivered" in store.jobs[-1][1]
    assert [function for function, _ in engine.beside_calls].count(CHILD) == 1
    (delivered,) = store.deliveries
    assert (delivered.seconds, delivered.untuned, delivered.verdict) == (1e-3, True, LOST.of_untuned)
    assert (delivered.verdict.gain, delivered.verdict.same, delivered.verdict.untuned_s) == (1.0, True, 1e-3)
    assert store.log(1) == []
    for task in TASKS:
        known = [r for r in store.known(task.workload, AVX2, "wall", 1) if not r.error]
        first, second = sorted(known, key=lambda record: record.ranking_s)[:2]
        last = [best for best in log.of("best") if best["task"] == task.id][-1]
        assert last["config"] == first.config.to_json()
        assert first.placed_s is None
        assert second.ranking_s >= 2 * first.ranking_s


def test_an_untuned_model_that_wins_and_is_wrong_ends_the_job():
    wrong = Check(1e-4, {"y": 0.3}, {"y": 1e-4}, "onnx 1", wrong="y differs by 0.3")
    store = MemoryStore()
    assert run(job(model="m"), delivering(LOST, check=wrong), store) is JobState.FAILED
    assert store.jobs[-1][1] == "the built model is wrong: y differs by 0.3"


def test_layers_without_a_config_that_ran_are_no_reason_not_to_race():
    """They have the analysis's in both models: the result is whole."""
    store = MemoryStore()
    spec = job(model="/models/one.onnx", budget=Budget(trials=1), strategy="analysis")
    assert run(spec, delivering(LOST), store) is JobState.DONE
    assert "1 of 2 tasks had no trial in the budget and have the untuned config" in store.jobs[-1][1]
    assert len({record.workload.key for record in store.records.values()}) == 1
