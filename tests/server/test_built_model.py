"""What a job says of the model that it built, and of what tuning gained."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_engine import HOST, FakeEngine
from fastapi.testclient import TestClient
from server_samples import conv_model
from test_jobs import URL, create, wait

from compiler.load import load_partition
from kernels import registry
from kernels.workload.base import Gemm, to_json
from server.jobs import manager, views
from server.jobs.built import BuiltModel
from server.jobs.schemas import Job
from tilefleet import render
from tuner.backend.apply import plan_of
from tuner.backend.check import Check, Delivery
from tuner.backend.verdict import Verdict
from tuner.log.record import Record, read_log
from tuner.log.relayouts import read_relayouts
from tuner.spec import JobSpec
from worker.outcome import ErrorKind


def test_the_built_model_is_the_last_word(client: TestClient, engine: FakeEngine) -> None:
    model = client.post("/api/v1/models", params={"name": "net.onnx"}, content=conv_model()).json()
    check = Check(1e-4, {"y": 1e-6}, {"y": 1e-4}, "onnxruntime 1.31.1")
    operators = [
        {"name": "conv", "key": "6b7d178c4a20e046", "calls": 2, "seconds": 4e-3},
        {"name": "softmax", "key": "", "calls": 1, "seconds": 1e-3},
    ]
    verdict = Verdict(6e-3, 5e-3, 1.2, 1.1, 1.3, 25, peer="onnxruntime", peer_s=8e-3)
    engine.delivery = Delivery(
        check, seconds=5e-3, spread=0.02, other_s=1e-3, operators=operators, verdict=verdict
    )
    job = create(client, workload=None, model=model["hash"], budget={"trials": 20})
    assert (job["built"], job["verdict"], job["no_verdict"]) == (None, None, "")
    job = wait(client, job["id"])
    assert job["built"] == {
        "measured_ms": 5.0,
        "spread": 0.02,
        "other_ms": 1.0,
        "in_place": 1.0,
        "operators": [
            {"name": "conv", "workload_key": "6b7d178c4a20e046", "calls": 2, "ms": 4.0, "share": 0.8},
            {"name": "softmax", "workload_key": None, "calls": 1, "ms": 1.0, "share": 0.2},
        ],
        "checked": True,
        "check": vars(check),
        "each": [],
    }
    assert job["verdict"] == {
        "untuned_ms": 6.0,
        "delivered_ms": 5.0,
        "gain": 1.2,
        "low": 1.1,
        "high": 1.3,
        "rounds": 25,
        "difference": True,
        "same": False,
        "peer": "onnxruntime",
        "peer_ms": 8.0,
        "text": str(verdict),
    }
    # What is no layer belongs to the estimates as well, and to their curve; no layer was timed in place here.
    tasks = client.get(f"{URL}/{job['id']}/tasks").json()["items"]
    layers_ms = sum(1e3 * task["weight"] * task["best_s"] for task in tasks)
    assert job["estimated_ms"] == pytest.approx(layers_ms + 1)
    curve = client.get(f"{URL}/{job['id']}/progress").json()["points"]
    assert curve[-1]["estimated_ms"] == pytest.approx(layers_ms + 1)
    slower = BuiltModel.model_validate(job["built"] | {"in_place": 1.25})
    assert views.whole_ms(4e-3, slower) == pytest.approx(6.0)

    engine.delivery = Delivery(replace(check, wrong="conv5 differs by 0.3"))
    assert client.post(f"{URL}/{job['id']}/resume").status_code == 200
    job = wait(client, job["id"])
    assert (job["state"], job["message"]) == ("failed", "the built model is wrong: conv5 differs by 0.3")
    assert (job["built"]["measured_ms"], job["built"]["checked"]) == (None, False)
    assert (job["verdict"], job["no_verdict"]) == (None, "its built model is wrong")


def test_where_the_untuned_model_is_delivered_a_build_by_the_log_is_that(
    client: TestClient, engine: FakeEngine
) -> None:
    model = client.post("/api/v1/models", content=conv_model()).json()["hash"]
    engine.delivery = Delivery(Check(1e-4, skipped="no time"), untuned=True)
    job = wait(client, create(client, workload=None, model=model, budget={"trials": 6})["id"])
    assert (job["state"], job["built"], job["verdict"]) == ("done", None, None)
    log = f"{URL}/{job['id']}/log"
    lines = client.get(log).text.splitlines()
    assert len(lines) == 1
    assert list(read_relayouts(lines)) == []
    assert len(list(read_log(client.get(log, params={"select": "all"}).text.splitlines()))) == 6
    # Another race, another end.
    engine.delivery = Delivery(Check(1e-4), seconds=5e-3, spread=0.02, other_s=1e-3)
    assert client.post(f"{URL}/{job['id']}/resume").status_code == 200
    wait(client, job["id"])
    assert list(read_log(client.get(log).text.splitlines()))


def test_a_build_by_the_log_of_the_best_knows_what_the_delivery_knew(
    client: TestClient, engine: FakeEngine, tmp_path: Path
) -> None:
    """It has the best of each pair of layouts, and what lost or failed of the analysis's configs: a build
    that does not know of these may take one of them."""
    content = conv_model()
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    model = client.post("/api/v1/models", content=content).json()["hash"]
    engine.fault = lambda candidate: (
        ErrorKind.WRONG_RESULT if candidate.config.layouts.out == "nhwc" else None
    )
    engine.delivery = Delivery(Check(1e-4), seconds=5e-3, spread=0.02, other_s=1e-3)
    job = wait(client, create(client, workload=None, model=model, budget={"trials": 60})["id"])
    assert job["state"] == "done"
    sent = [Record.from_json(each) for each in engine.payloads[-1]["records"]]
    configs = []
    for address in (f"{URL}/{job['id']}/log", "/api/v1/targets/host/log"):
        lines = client.get(address).text.splitlines()
        log = list(read_log(lines))
        assert sorted(log, key=at) == sorted(sent, key=at)
        plan = plan_of(load_partition(path), {}, HOST, records=log, relayouts=read_relayouts(lines))
        configs.append([option.config for option in plan.options if option])
    assert configs[0] == configs[1]
    best = {(each.workload, each.layouts) for each in log if each.error is None}
    tried = {(each.workload, each.config) for each in log}
    assert len(log) > len(best) >= 2
    assert any(each.error is ErrorKind.WRONG_RESULT for each in log)
    for workload in {each.workload for each in log}:
        for pick in registry.recommendations(workload, HOST, any_layout=True):
            known = (
                candidate.workload == workload and candidate.config == pick for candidate in engine.measured
            )
            assert ((workload, pick) in tried) == any(known)


def at(record: Record) -> tuple[object, ...]:
    return record.identity


def test_a_workload_has_a_verdict_on_its_untuned_and_its_best_config(client: TestClient) -> None:
    job = wait(client, create(client)["id"])
    (task,) = client.get(f"{URL}/{job['id']}/tasks").json()["items"]
    verdict = job["verdict"]
    assert (job["state"], job["built"], job["no_verdict"], job["trials"]) == ("done", None, "", 12)
    assert verdict["untuned_ms"] >= verdict["delivered_ms"] > 0
    assert verdict["same"] or verdict["rounds"] >= 21
    assert verdict["gain"] == pytest.approx(verdict["untuned_ms"] / verdict["delivered_ms"])
    assert "measured: " + verdict["text"] in render.times(Job.model_validate(job))
    # What is delivered is in the log, and leads the tasks.
    records = list(read_log(client.get(f"{URL}/{job['id']}/log").text.splitlines(keepends=True)))
    assert task["best_s"] == min(record.ranking_s or math.inf for record in records)
    cancelled = create(client, workload=to_json(Gemm(8, 16, 32)), budget={"trials": 10_000})
    client.post(f"{URL}/{cancelled['id']}/cancel")
    assert wait(client, cancelled["id"])["no_verdict"] == "its configs were not raced: it was cancelled"


def test_a_new_job_says_what_a_first_result_takes(client: TestClient, engine: FakeEngine) -> None:
    model = client.post("/api/v1/models", params={"name": "net.onnx"}, content=conv_model()).json()
    engine.delivery = Delivery(Check(1e-4), seconds=5e-3, spread=0.0, other_s=0.0)
    given: dict[str, Any] = {"workload": None, "model": model["hash"], "budget": {"trials": 2}}
    job = create(client, **given)
    assert job["first_look_s"] is None
    assert "is not known" in render.first_look(Job.model_validate(job))
    wait(client, job["id"])
    job = create(client, **given)
    assert 0 < job["first_look_s"] < 60
    assert "a first result takes about " in render.first_look(Job.model_validate(job))
    assert wait(client, job["id"])["first_look_s"] is None  # it has one
    assert create(client)["first_look_s"] is None  # nothing is built


def test_planning_the_untuned_model_is_of_the_jobs_seconds(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(spec: JobSpec, *_: object) -> JobSpec:
        time.sleep(1.0)
        return spec

    monkeypatch.setattr(manager, "with_incumbents", planned)
    job = create(client, budget={"trials": 2})
    began = time.monotonic()
    ended = wait(client, job["id"])
    assert 1.0 <= ended["elapsed_s"] <= time.monotonic() - began + 1.0
    used_s = ended["elapsed_s"]
    assert client.post(f"{URL}/{job['id']}/resume", json={"trials": 1}).status_code == 200
    assert wait(client, job["id"])["elapsed_s"] >= used_s + 1.0
