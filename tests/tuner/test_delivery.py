"""The end of a model's job: the built model, checked and timed."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from formula_engine import AVX2, FakeEngine, job, run
from memory_store import MemoryStore
from tiny_models import model, node, save

from compiler.load import load_partition
from kernels import registry
from kernels import target as targets
from tuner.backend import apply
from tuner.backend.check import Check, Delivery
from tuner.backend.manifest import Manifest
from tuner.backend.profile import profile_of
from tuner.job import delivery_child, race
from tuner.log.record import Record
from tuner.states import JobState
from worker.measure.host import host_target
from worker.outcome import Answer

RIGHT = Check(1e-4, {"y": 1e-6}, {"y": 1e-4}, "onnxruntime 1")


def ended(delivery: Delivery) -> tuple[JobState, str, MemoryStore]:
    """How a job ends whose built model comes out so."""
    engine, store = FakeEngine(), MemoryStore()
    engine.deliver = lambda _: Answer(json.loads(json.dumps(delivery.to_json())))
    run(job(model="/models/one.onnx"), engine, store)
    return *store.jobs[-1], store


def test_the_last_word_is_the_built_model():
    state, message, store = ended(Delivery(RIGHT, 5e-3, 0.02, 1e-3))
    assert (state, message) == (JobState.DONE, "")
    assert store.deliveries == [Delivery(RIGHT, 5e-3, 0.02, 1e-3)]


def test_a_wrong_model_ends_the_job_with_the_name_of_the_tensor():
    state, message, store = ended(
        Delivery(Check(1e-4, {"y": 0.3}, {"y": 1e-4}, "onnx 1", wrong="conv5 differs by 0.3"))
    )
    assert state is JobState.FAILED
    assert message == "the built model is wrong: conv5 differs by 0.3"
    assert store.deliveries[0].seconds is None


def test_a_model_that_could_not_be_checked_is_no_silent_pass():
    state, message, _ = ended(Delivery(Check(1e-4, skipped="it took too long"), 5e-3, 0.02, 1e-3))
    assert state is JobState.DONE
    assert message == "the built model was not checked: it took too long"


def test_what_prevents_the_build_is_told():
    engine, store = FakeEngine(), MemoryStore()
    engine.deliver = lambda _: Answer(problem="the child ran out of memory")
    assert run(job(model="/models/one.onnx"), engine, store) is JobState.DONE
    assert store.jobs[-1][1] == "the model was not built and measured: the child ran out of memory"
    assert store.deliveries == []


def test_the_build_gets_the_best_of_each_pair_of_layouts():
    engine, store = FakeEngine(), MemoryStore()
    run(job(model="/models/one.onnx", any_layout=True), engine, store)
    function, payload = engine.beside_calls[-1]
    assert function == "tuner.job.delivery_child:deliver_in_child"
    sent = [Record.from_json(each) for each in payload["records"]]
    pairs = {(record.workload, record.layouts) for record in sent}
    assert len(pairs) > 2
    for workload, layouts in pairs:
        known = [each for each in store.known(workload, AVX2, "wall", 1) if each.layouts == layouts]
        mine = [each for each in sent if (each.workload, each.layouts) == (workload, layouts)]
        assert min(each.ranking_s for each in mine) == min(each.ranking_s for each in known)
        # Beside it all that the analysis recommends and that was tried: the build need not guess at it.
        picks = registry.recommendations(workload, AVX2, any_layout=True)
        assert {each.config for each in mine} >= {each.config for each in known} & {*picks}


@pytest.fixture
def payload(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", {**os.environ})
    pads = [1, 1, 1, 1]
    nodes = [
        node("Conv", ["x", "w"], "a", pads=pads),
        node("Relu", ["a"], "b"),
        node("Conv", ["b", "v"], "c", pads=pads),
        node("Abs", ["c"], "y"),
    ]
    weights = {"w": (16, 16, 3, 3), "v": (32, 16, 3, 3)}
    path = save(tmp_path, model(nodes, {"x": (1, 16, 28, 28)}, ["y"], weights))
    target = host_target()
    return {
        "model": str(path),
        "shapes": None,
        "target": targets.to_json(target),
        "threads": 1,
        "numerics": "relaxed",
        "records": [],
        "relayouts": [],
        "lock": str(tmp_path / "lock"),
        "id": "host",
    }


def test_a_model_is_built_checked_and_timed(payload):
    found = Delivery.from_json(delivery_child.deliver_in_child(payload, lambda _: None))
    assert found.check.checked
    assert 0 < found.other_s < found.seconds
    assert found.spread >= 0
    layers = [each for each in found.operators if each["key"]]
    assert [each["calls"] for each in layers] == [1, 1]
    assert sum(each["seconds"] for each in found.operators) == pytest.approx(found.seconds)
    assert {each["name"] for each in found.operators} >= {"calls and memory"}


def test_functions_of_one_kind_are_told_together():
    runs = [[("add", 1.0), ("add2", 2.0), ("inner", 3.0)], [("add", 3.0), ("add2", 2.0), ("inner", 3.0)]]
    found = profile_of([8.0, 10.0], runs)
    assert found.calls == {"add": (1, 2.0), "add2": (1, 2.0), "inner": (1, 3.0), "calls and memory": (3, 2.0)}
    names = {"add": "tilefleet_add_1_64_of", "add2": "add2", "inner": "inner"}
    found = replace(found, calls={names.get(name, name): each for name, each in found.calls.items()})
    listed = delivery_child.operators_of(found, Manifest(AVX2, 1, ()))
    assert [(each["name"], each["calls"], each["seconds"]) for each in listed] == [
        ("add", 2, 4.0),
        ("inner", 1, 3.0),
        ("calls and memory", 3, 2.0),
    ]
    # Calls timed one by one may come to more than the whole: then to as much.
    assert sum(seconds for _, seconds in profile_of([4.0], runs[:1]).calls.values()) == pytest.approx(4.0)


def test_a_wrong_model_is_not_timed(payload, monkeypatch):
    packed = apply.constants_of

    def spoil(product, config, target):
        weights, *rest = packed(product, config, target)
        return [weights * np.float32(1.1) if product.workload.out_c == 16 else weights, *rest]

    monkeypatch.setattr(apply, "constants_of", spoil)
    found = Delivery.from_json(delivery_child.deliver_in_child(payload, lambda _: None))
    assert found.check.wrong.startswith("b differs by 0.1")
    assert found.seconds is None


def test_a_model_is_raced_beside_the_untuned_one(payload, monkeypatch):
    """Without records both are the same; a slow config for the second layer loses."""
    monkeypatch.setattr(race, "GROUPS", 2)
    alike = delivery_child.deliver_in_child({**payload, "race": 0.001}, lambda _: None)
    verdict = Delivery.from_json(alike).verdict
    assert (verdict.same, verdict.gain, verdict.peer) == (True, 1.0, "onnxruntime")
    assert verdict.delivered_s > 0
    assert verdict.peer_s > 0
    (_, product), target = load_partition(payload["model"]).products, host_target()
    kernel, workload = registry.kernel("fconv"), product.workload
    space = [c for c in registry.search_space(workload, target) if c.kernel == "fconv"]
    slow = max(space, key=lambda config: kernel.predict(workload, config, target))
    records = [
        Record(workload, target, config, registry.kernel(config.kernel).version, cost_s=1.0)
        for config in registry.recommendations(workload, target, any_layout=True)
        if config != slow
    ]
    records.append(Record(workload, target, slow, kernel.version, cost_s=1e-9))
    payload = {**payload, "race": 0.001, "records": [record.to_json() for record in records]}
    found = delivery_child.deliver_in_child(payload, lambda _: None)
    verdict = Delivery.from_json(json.loads(json.dumps(found))).verdict
    assert (verdict.same, verdict.rounds) == (False, 10)
    assert verdict.gain < 0.95
    assert verdict.untuned_s < verdict.delivered_s
    # The untuned model is checked and timed in the same call.
    assert not found["same"]
    instead = Delivery.from_json(json.loads(json.dumps(found["instead"])))
    assert instead.check.checked
    assert instead.untuned
    assert instead.seconds < Delivery.from_json(found).seconds
    assert (instead.verdict.same, instead.verdict.untuned_s) == (True, verdict.untuned_s)
    assert alike["same"]
    assert "instead" not in alike
