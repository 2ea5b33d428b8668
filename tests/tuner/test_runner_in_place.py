"""The runner's last comparison, inside the built model, against an engine without hardware."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from formula_engine import AVX2, TASKS, FakeEngine, Log, job, run
from memory_store import MemoryStore

from tuner.backend.check import Check, Delivery
from tuner.log.record import Record
from tuner.spec import TaskSpec
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
        return Answer({"configs": found}, lease=0)

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
        return Answer({"configs": found}, lease=0)

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
        return Answer({"configs": found}, lease=0)

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


def test_what_fails_in_place_is_told_and_the_picks_stand():
    engine, store, log = FakeEngine(), MemoryStore(), Log()
    engine.in_place = lambda _: Answer(problem="the child ran out of memory")
    assert run(job(model="/models/one.onnx"), engine, store, log) is JobState.DONE
    state, message = store.jobs[-1]
    assert (state, "ran out of memory" in message) == (JobState.DONE, True)
    assert all(record.placed_s is None for record in store.records.values())
    simulated, nowhere = FakeEngine(), FakeEngine()
    run(job(model="/models/one.onnx", clock="simulated:a"), simulated, MemoryStore())
    (only,) = simulated.beside_calls
    assert only[0] == "tuner.job.delivery_child:deliver_in_child"
    store = MemoryStore()
    run(job(model="/models/one.onnx"), nowhere, store)
    assert store.jobs[-1] == (JobState.DONE, "")


def test_each_set_of_shapes_is_compared_by_itself_and_all_are_delivered():
    engine, store = FakeEngine(), MemoryStore()
    engine.in_place = lambda _: Answer({"configs": []}, lease=0)
    engine.deliver = lambda _: Answer(
        json.loads(json.dumps(Delivery(Check(1e-4), 5e-3, 0.02, 1e-3).to_json()))
    )
    sets = [{"x": [1, 3, 8, 8]}, {"x": [1, 3, 9, 9]}]
    assert run(job(model="/models/one.onnx", shapes=sets), engine, store) is JobState.DONE
    assert [payload["shapes"] for _, payload in engine.beside_calls] == [*sets, sets]
