"""A budget of seconds holds the build and its race, is kept, and ends where nothing is to be expected."""

import json
import time
from dataclasses import replace

import pytest
from formula_engine import TASKS, FakeEngine, job, ran, run
from memory_store import MemoryStore

from tuner.backend.check import Check, Delivery
from tuner.job.budget import Allowance
from tuner.job.reserve import BOTH, LATE_S, LATE_SHARE, SPARE, TRIAL_S, Deliveries
from tuner.search.scheduler import Curve, expected_s, worth
from tuner.spec import Budget
from tuner.states import JobState
from worker.outcome import Answer


def delivering(**arguments):
    engine, sent = FakeEngine(**arguments), []
    delivery = Delivery(Check(1e-4), 1e-3, 0.0, 0.0).to_json()

    def deliver(payload):
        sent.append(payload)
        return Answer(json.loads(json.dumps(delivery)))

    engine.deliver = deliver
    return engine, sent


def test_a_budget_too_small_for_a_trial_delivers_the_untuned_model_and_says_what_is_needed():
    engine, sent = delivering()
    store = MemoryStore()
    store.relayouts = lambda *_: ["a measured conversion"]
    assert run(job(model="/models/one.onnx", budget=Budget(seconds=1)), engine, store) is JobState.DONE
    # Measured conversions could make another plan of it.
    assert [(payload["records"], payload["relayouts"]) for payload in sent] == [([], [])]
    assert store.deliveries[0].untuned
    assert not engine.evaluated
    assert len(store.deliveries) == 1
    message = store.jobs[-1][1]
    assert message.startswith("a budget of 1 s is too small for trials beside the build and its runs")
    needed = float(message.rpartition("give ")[2].partition(" s")[0])
    assert 1 < needed < 20
    # Where nothing was built there is no whole result.
    engine.deliver = lambda _: Answer(problem="the child ran out of memory")
    assert run(job(model="/models/one.onnx", budget=Budget(seconds=1)), engine, store) is JobState.FAILED


def test_the_search_leaves_the_last_build_its_time(monkeypatch):
    monkeypatch.setattr("tuner.job.reserve.LEAST_S", 1.0)
    monkeypatch.setattr("tuner.job.reserve.TASK_S", 0.0)
    engine, sent = delivering(trial_s=0.02)
    began, left = time.monotonic(), []
    deliver = engine.deliver
    engine.deliver = lambda payload: left.append(2.5 - (time.monotonic() - began)) or deliver(payload)
    assert run(job(model="m", budget=Budget(seconds=2.5)), engine, MemoryStore()) is JobState.DONE
    assert left[0] >= 0.5 * SPARE
    assert engine.evaluated
    assert 0 < sent[0]["race"] <= 2.5


def test_what_a_delivery_takes_is_learned_from_those_before():
    deliveries, spec = Deliveries(), job(model="one")
    other, elsewhere = replace(spec, model="other"), job(model="one", clock="simulated:a")
    first = deliveries.expected_s(spec)
    assert deliveries.expected_s(replace(spec, planned_s=60.0)) > 60.0 > first
    deliveries.observe(spec, 10.0)
    assert deliveries.expected_s(spec) == deliveries.expected_s(other) == pytest.approx(10.0 * SPARE)
    assert deliveries.expected_s(elsewhere) == first
    deliveries.observe(replace(other, tasks=TASKS[:1]), 15.0)
    assert deliveries.expected_s(spec) == pytest.approx(10.0 * SPARE)
    third = replace(spec, model="third")
    assert deliveries.expected_s(third) == pytest.approx(20.0 * SPARE)
    assert deliveries.needed_s(third) > 20.0 * SPARE
    kind = spec.demand.target.key, spec.demand.clock, spec.demand.threads
    look_s = deliveries.first_look_s("third", kind, len(TASKS))
    assert look_s == pytest.approx(20.0 * SPARE + TRIAL_S * len(TASKS))
    assert deliveries.first_look_s("one", kind, len(TASKS)) < look_s
    assert deliveries.first_look_s("one", (kind[0], "simulated:a", 1), len(TASKS)) is None
    assert deliveries.expected_s(job(model=None)) == 0.0


def test_a_delivery_ends_soon_after_the_seconds_and_leaves_the_untuned_model(monkeypatch):
    """The child is stopped: nobody has seen a race, so the log has no record to build by."""
    monkeypatch.setattr("tuner.job.reserve.LATE_S", 0.5)
    engine, sent = delivering(trial_s=0.01)
    beside = engine.beside

    async def slow(function, payload, demand, *, cancelled, **limits):
        await beside(function, payload, demand, **limits)
        await cancelled.wait()
        return Answer(problem="cancelled")

    engine.beside = slow
    store, deliveries, began = MemoryStore(), Deliveries(), time.monotonic()
    deliveries.observe(job(model="m"), 0.5)
    spec = job(model="m", clock="simulated:a", budget=Budget(seconds=2.0))
    deliveries.observe(spec, 0.5)
    assert run(spec, engine, store, deliveries=deliveries) is JobState.DONE
    assert time.monotonic() - began >= 2.5
    assert engine.evaluated
    assert sent
    assert [(each.untuned, each.seconds) for each in store.deliveries] == [(True, None)]
    assert store.log(1) == []
    message = store.jobs[-1][1]
    assert (
        "is too small for the build and its runs, so the untuned model is delivered without a race" in message
    )
    assert float(message.rpartition("give ")[2].partition(" s")[0]) > 2.0
    # It is known from then on, also to a job that is too short for the untuned model alone.
    deliveries.took_longer(spec, 10.0, same=False)
    assert deliveries.seen_s(spec) == 20.0
    calls = len(sent)
    again = replace(spec, budget=Budget(seconds=0.2))
    assert run(again, engine, store, deliveries=deliveries) is JobState.DONE
    assert len(sent) == calls
    assert "delivered without a build: give " in store.jobs[-1][1]
    # A job of trials has no such end.
    engine.beside = beside
    unlimited = replace(spec, budget=Budget(trials=80))
    assert run(unlimited, engine, store, deliveries=deliveries) is JobState.DONE
    assert not store.deliveries[-1].untuned


def test_with_seconds_for_the_untuned_model_alone_that_is_built():
    engine, sent = delivering()
    store, deliveries, spec = MemoryStore(), Deliveries(), job(model="m", clock="simulated:a")
    assert run(spec, engine, store) is JobState.DONE
    assert store.log(1)
    deliveries.observe(spec, 30.0)
    short = replace(spec, budget=Budget(seconds=20.0))
    assert run(short, engine, store, deliveries=deliveries) is JobState.DONE
    assert [len(payload["records"]) > 0 for payload in sent] == [True, False]
    assert store.deliveries[-1].untuned
    assert "too small for a race of the tuned model, so the untuned model is delivered" in store.jobs[-1][1]


@pytest.mark.parametrize(("seen_s", "built"), [(4.0, True), (30.0, False)])
def test_what_was_tuned_is_built_late_where_the_search_overran_a_budget_with_room_for_it(
    monkeypatch, seen_s, built
):
    """Without a second left the build begins if it can end within as long again as was kept for it."""
    engine, sent = delivering(trial_s=0.002)
    store, deliveries = MemoryStore(), Deliveries()
    spec = job(model="m", clock="simulated:a", budget=Budget(seconds=20.0, trials=80))
    deliveries.observe(spec, seen_s)
    monkeypatch.setattr(Allowance, "left", lambda self: 20.0 if self.rate is None else 1.0)
    monkeypatch.setattr(Allowance, "search_left", lambda _: 20.0)
    assert run(spec, engine, store, deliveries=deliveries) is JobState.DONE
    assert engine.evaluated
    assert bool(sent and sent[-1]["records"]) is built
    assert store.deliveries[-1].untuned is not built


def test_only_what_was_tuned_may_be_built_long_after_the_seconds():
    deliveries, spec = Deliveries(), job(model="m", budget=Budget(seconds=40.0))
    assert deliveries.late_s(spec, tuned=False) == LATE_SHARE * 40.0
    assert deliveries.late_s(spec, tuned=True) >= LATE_S
    deliveries.observe(spec, 30.0)
    assert deliveries.late_s(spec, tuned=True) == pytest.approx(30.0 * SPARE)
    assert deliveries.late_s(spec, tuned=False) == LATE_SHARE * 40.0
    deliveries.observe(spec, 50.0)
    assert deliveries.late_s(spec, tuned=True) == LATE_SHARE * 40.0


def test_the_untuned_model_alone_takes_less():
    deliveries, spec = Deliveries(), job(model="one")
    deliveries.took_longer(spec, 0.1, same=False)
    assert deliveries.seen_s(spec) == 0.0
    deliveries.observe(spec, 10.0, same=True)
    assert deliveries.seen_s(spec) == 10.0 * BOTH
    deliveries.took_longer(spec, 15.0, same=False)
    assert deliveries.seen_s(spec) == 30.0
    deliveries.took_longer(spec, 1.0, same=True)
    assert deliveries.seen_s(spec) == 30.0
    deliveries.took_longer(spec, 12.0, same=True)
    assert deliveries.seen_s(spec) == 24.0 * BOTH


def curve(trials, best_s=1.0, size=1000, weight=1):
    made = Curve(weight, size)
    made.know([best_s] * trials)
    return made


def test_what_is_left_shrinks_with_trials_budget_and_space():
    few, many = curve(4), curve(400)
    assert expected_s([few], 10) > expected_s([few], 2) > expected_s([many], 2) > 0
    assert expected_s([curve(4, size=5)], 100) == expected_s([curve(4, size=5)], 1)
    assert expected_s([few, many], 1) == few.gain
    assert worth([few], 10)
    assert not worth([many], 2)
    # A light layer is of no use to a heavy model, and what never ran is always worth a trial.
    assert not worth([curve(400, best_s=1.0), curve(2, best_s=1e-3)], 10)
    assert worth([many, Curve(1, 10)], 2)


def test_a_job_ends_when_less_than_a_percent_is_to_be_expected():
    engine, store = FakeEngine(lambda candidate: replace(ran(candidate), cost_s=1e-3)), MemoryStore()
    heavy = (replace(TASKS[0], weight=1000), TASKS[1])
    assert run(job(tasks=heavy, budget=Budget(trials=200)), engine, store) is JobState.DONE
    assert "it ended before its budget: less than 1 % of the model was to be expected" in store.jobs[-1][1]
    assert len(engine.evaluated) < 180
