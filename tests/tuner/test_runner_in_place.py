"""The runner's last comparison, inside the built model, against an engine without hardware."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from formula_engine import AVX2, TASKS, FakeEngine, Log, job, run
from memory_store import MemoryStore

from kernels import registry
from kernels.space import Config
from tuner.backend.check import Check, Delivery
from tuner.log.record import Record
from tuner.spec import Budget, TaskSpec
from tuner.states import JobState
from worker.outcome import Answer, ErrorKind


def test_the_final_pick_is_made_inside_the_model():
    """Of three configs those slowest by themselves are the fastest in place: they change places."""

    def in_place(payload: dict) -> Answer:
        keys = {
            record["workload"]["in_c"]: Record.from_json(record).workload.key for record in payload["records"]
        }
        found = []
        for key in keys.values():
            mine = [r for r in map(Record.from_json, payload["records"]) if r.workload.key == key]
            mine.sort(key=lambda record: record.ranking_s)
            found += [
                {"key": key, "config": record.config.to_json(), "seconds": 1e-3 / (1 + place)}
                for place, record in enumerate(mine[:3])
            ]
        return Answer({"configs": found, "tuned_s": 1e-3, "untuned_s": 1e-3, "untuned": []}, lease=0)

    engine, store, log = FakeEngine(), MemoryStore(), Log()
    engine.in_place = in_place
    delivery = Delivery(Check(1e-4), 5e-3, 0.02, 1e-3).to_json()
    engine.deliver = lambda _: Answer(json.loads(json.dumps(delivery)))
    spec = job(model="/models/one.onnx", shapes={"x": [1, 3, 8, 8]})
    assert run(spec, engine, store, log) is JobState.DONE
    (function, payload), _ = engine.beside_calls
    assert (function, payload["model"], payload["shapes"]) == (
        "tuner.job.in_place:time_in_child",
        "/models/one.onnx",
        {"x": [1, 3, 8, 8]},
    )
    for task in TASKS:
        known = store.known(task.workload, AVX2, "wall", 1)
        best = min((r for r in known if not r.error), key=lambda record: record.ranking_s)
        placed = [r for r in known if r.placed_s is not None]
        assert best.in_place_s == min(r.in_place_s for r in placed) == 1e-3 / 3
        assert best.isolated_s == max(r.isolated_s for r in placed)
        assert sorted(r.placed_s for r in placed) == sorted(r.isolated_s for r in placed)
        assert [b for b in log.of("best") if b["task"] == task.id][-1]["config"] == best.config.to_json()
    alone = sum(task.weight * best_s(store, task) for task in TASKS)
    inside = sum(task.weight for task in TASKS) * 1e-3 / 3
    assert store.deliveries[0].in_place == pytest.approx(inside / alone)


def best_s(store: MemoryStore, task: TaskSpec) -> float:
    """What the task's best config counts as, in seconds."""
    return min(r.ranking_s for r in store.known(task.workload, AVX2, "wall", 1) if not r.error)


def test_nothing_gets_the_place_of_what_was_withdrawn_meanwhile():
    """Places are costs of others: those of a board that is caught while the models are compared are none."""
    lies: list[Record] = []

    def in_place(payload: dict) -> Answer:
        records = [Record.from_json(each) for each in payload["records"]]
        for lie in [min((r for r in records if r.workload == task.workload), key=rank) for task in TASKS]:
            lies.append(lie)
            gone = replace(lie, cost_s=None, verified_s=None, error=ErrorKind.WITHDRAWN)
            store.records[lie.identity] = gone
        found = [
            {"key": r.workload.key, "config": r.config.to_json(), "seconds": 1e-3 / (1 + place)}
            for place, r in enumerate(sorted(records, key=rank))
        ]
        return Answer({"configs": found, "tuned_s": 1e-3, "untuned_s": 1e-3, "untuned": []}, lease=0)

    def rank(record: Record) -> float:
        return record.ranking_s or 0.0

    engine, store, log = FakeEngine(), MemoryStore(), Log()
    engine.in_place = in_place
    run(job(model="/models/one.onnx", shapes={"x": [1, 3, 8, 8]}), engine, store, log)
    assert len(lies) == len(TASKS)
    for task, lie in zip(TASKS, lies, strict=True):
        known = store.known(task.workload, AVX2, "wall", 1)
        assert any(record.placed_s for record in known)
        assert min(record.ranking_s for record in known if record.ranking_s) > rank(lie)
        assert store.records[lie.identity].error is ErrorKind.WITHDRAWN
        last = [best for best in log.of("best") if best["task"] == task.id][-1]
        assert last["cost_s"] > rank(lie)


def test_what_another_job_measured_anew_meanwhile_is_not_overwritten_by_what_was_withdrawn():
    """The first job still knows the lie, which ranks first with it and is compared inside the model."""
    honest: list[Record] = []

    def in_place(payload: dict) -> Answer:
        records = [Record.from_json(each) for each in payload["records"]]
        for lie in [min((r for r in records if r.workload == t.workload), key=rank) for t in TASKS]:
            honest.append(replace(lie, cost_s=1.0, verified_s=None, board="another"))
            store.records[lie.identity] = honest[-1]
        found = [
            {"key": r.workload.key, "config": r.config.to_json(), "seconds": 1e-3 / (1 + place)}
            for place, r in enumerate(sorted(records, key=rank))
        ]
        return Answer({"configs": found, "tuned_s": 1e-3, "untuned_s": 1e-3, "untuned": []}, lease=0)

    def rank(record: Record) -> float:
        return record.ranking_s or 0.0

    engine, store, built = FakeEngine(), MemoryStore(), []
    engine.in_place = in_place
    delivery = Delivery(Check(1e-4), 5e-3, 0.02, 1e-3).to_json()
    engine.deliver = lambda payload: built.append(payload) or Answer(json.loads(json.dumps(delivery)))
    run(job(model="/models/one.onnx", shapes={"x": [1, 3, 8, 8]}), engine, store)
    assert len(honest) == len(TASKS)
    for record in honest:
        stored = store.records[record.identity]
        assert (stored.cost_s, stored.board) == (1.0, "another")
    assert len(built) == 1
    assert not {r.identity for r in honest} & {Record.from_json(r).identity for r in built[0]["records"]}


@pytest.mark.parametrize(
    ("clock", "losses", "behind"), [("wall", 1, 2), ("simulated:a", 1, 2), ("wall", 9, 32)]
)
def test_an_untuned_model_that_is_faster_ranks_first(clock: str, losses: int, behind: int):
    """As the tuned one took twice its time, so do all before its configs, and more while it still does."""
    chosen: dict[str, Config] = {}
    lost: list[bool] = []

    def in_place(payload: dict) -> Answer:
        records = [Record.from_json(each) for each in payload["records"]]
        if not lost:
            chosen.update(
                {each.workload.key: each.config for each in records}
            )  # the last, and so no fast one
        assert not lost or len({(each.workload.key, each.layouts) for each in records}) == len(records)
        lost.append(len(lost) < losses)
        untuned = [{"key": key, "config": config.to_json()} for key, config in chosen.items()]
        took = {"tuned_s": 2e-3 if lost[-1] else 1e-3, "untuned_s": 1e-3}
        return Answer({"configs": [], **took, "untuned": untuned}, lease=0)

    engine, store = FakeEngine(), MemoryStore()
    engine.in_place = in_place
    assert run(job(model="/models/one.onnx", clock=clock), engine, store) is JobState.DONE
    assert "1 ms, less than the tuned one with 2 ms" in store.jobs[-1][1]
    for task in TASKS:
        known = [r for r in store.known(task.workload, AVX2, "wall", 1) if not r.error]
        first, second = sorted(known, key=lambda record: record.ranking_s)[:2]
        assert first.config == chosen[task.workload.key]
        assert first.placed_s is None
        assert second.ranking_s == behind * first.ranking_s
        assert min(r.isolated_s for r in known) < first.isolated_s


def test_configs_of_an_untuned_model_that_no_trial_had_are_measured_when_it_wins():
    """Beyond the budget, which was for one trial of each task."""
    engine, store, asked = FakeEngine(), MemoryStore(), []

    def in_place(payload: dict) -> Answer:
        if not asked:
            for task in TASKS:
                space = registry.search_space(task.workload, AVX2)
                known = {record.config for record in store.records.values()}
                asked.append((task.workload.key, next(config for config in space if config not in known)))
            took = {"tuned_s": 2e-3, "untuned_s": 1e-3}
        else:
            took = {"tuned_s": 1e-3, "untuned_s": 1e-3}
        untuned = [{"key": key, "config": config.to_json()} for key, config in asked]
        return Answer({"configs": [], **took, "untuned": untuned}, lease=0)

    engine.in_place = in_place
    spec = job(model="/models/one.onnx", budget=Budget(trials=len(TASKS)), strategy="analysis")
    assert run(spec, engine, store) is JobState.DONE
    for key, config in asked:
        known = [r for r in store.records.values() if r.workload.key == key and not r.error]
        assert len(known) > 1
        assert min(known, key=lambda record: record.ranking_s).config == config


@pytest.mark.parametrize(("clock", "told"), [("wall", False), ("simulated:a", True)])
def test_a_simulated_clock_has_no_noise(clock: str, told: bool):
    engine, store = FakeEngine(), MemoryStore()
    engine.in_place = lambda _: Answer(
        {"configs": [], "tuned_s": 1.01e-3, "untuned_s": 1e-3, "untuned": []}, lease=0
    )
    run(job(model="/models/one.onnx", clock=clock), engine, store)
    assert ("less than the tuned one" in store.jobs[-1][1]) is told


def test_what_fails_in_place_is_told_and_the_picks_stand():
    engine, store, log = FakeEngine(), MemoryStore(), Log()
    engine.in_place = lambda _: Answer(problem="the child ran out of memory")
    assert run(job(model="/models/one.onnx"), engine, store, log) is JobState.DONE
    state, message = store.jobs[-1]
    assert (state, "ran out of memory" in message) == (JobState.DONE, True)
    assert all(record.placed_s is None for record in store.records.values())
    simulated, nowhere = FakeEngine(), FakeEngine()
    run(job(model="/models/one.onnx", clock="simulated:a"), simulated, MemoryStore())
    assert [function for function, _ in simulated.beside_calls] == [
        "tuner.job.models_on_board:time_in_child",
        "tuner.job.delivery_child:deliver_in_child",
    ]
    store = MemoryStore()
    run(job(model="/models/one.onnx"), nowhere, store)
    assert store.jobs[-1] == (JobState.DONE, "")


def test_each_set_of_shapes_is_compared_by_itself_and_all_are_delivered():
    engine, store = FakeEngine(), MemoryStore()
    nothing = {"configs": [], "tuned_s": 1e-3, "untuned_s": 1e-3, "untuned": []}
    engine.in_place = lambda _: Answer(nothing, lease=0)
    engine.deliver = lambda _: Answer(
        json.loads(json.dumps(Delivery(Check(1e-4), 5e-3, 0.02, 1e-3).to_json()))
    )
    sets = [{"x": [1, 3, 8, 8]}, {"x": [1, 3, 9, 9]}]
    assert run(job(model="/models/one.onnx", shapes=sets), engine, store) is JobState.DONE
    assert [payload["shapes"] for _, payload in engine.beside_calls] == [*sets, sets]
