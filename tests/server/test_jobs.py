"""Jobs over the API, run by the real runner on a scripted engine."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import numpy as np
import pytest
from fake_engine import HOST, FakeEngine
from fastapi.testclient import TestClient
from onnx import TensorProto, helper, numpy_helper
from server_samples import conv_model

from kernels.workload.base import Conv2d, Gemm, to_json
from server.app import create_app
from server.db.database import Database
from server.db.tables import JobRow
from server.http.pages import thin
from server.settings import Settings
from tuner.log.record import read_log
from tuner.log.relayouts import read_relayouts
from worker.candidate import Candidate
from worker.children.nursery import Nursery
from worker.outcome import ErrorKind

URL = "/api/v1/jobs"
GEMM = to_json(Gemm(m=64, n=64, k=64))
CONV = to_json(Conv2d(n=1, in_c=16, in_h=28, in_w=28, out_c=32, kh=3, kw=3, pad=(1, 1, 1, 1)))


def create(client: TestClient, **fields: Any) -> dict[str, Any]:
    body = {"workload": CONV, "target": "host", "budget": {"trials": 12}, "strategy": "random", **fields}
    response = client.post(URL, json={name: value for name, value in body.items() if value is not None})
    assert response.status_code == 201, response.text
    job: dict[str, Any] = response.json()
    assert response.headers["Location"] == f"{URL}/{job['id']}"
    return job


def wait(client: TestClient, job_id: int, *states: str) -> dict[str, Any]:
    deadline = time.monotonic() + 240
    while True:
        job: dict[str, Any] = client.get(f"{URL}/{job_id}").json()
        if job["state"] in (states or ("done", "incomplete", "failed", "cancelled", "interrupted")):
            return job
        assert time.monotonic() < deadline, job
        time.sleep(0.02)


def events(client: TestClient, job_id: int, after: str | None = None) -> list[tuple[str, str, Any]]:
    """(id, name, data) of all events up to ``end``."""
    headers = {"Last-Event-ID": after} if after else {}
    response = client.get(f"{URL}/{job_id}/events", headers=headers)
    assert response.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in response.text.replace("\r\n", "\n").strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


def test_a_chain_is_a_task_beside_its_parts(client: TestClient) -> None:
    """Where what is between its convolutions is too large for the caches; no sum has it."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Conv", ["a", "v"], ["y"])]
    weights = {"w": np.ones((64, 3, 1, 1), np.float32), "v": np.ones((2, 64, 1, 1), np.float32)}
    for side, kinds in ((400, ["conv2d", "conv2d", "chain"]), (40, ["conv2d", "conv2d"])):
        graph = helper.make_graph(
            nodes,
            "pair",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, side, side))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, side, side))],
            [numpy_helper.from_array(value, name) for name, value in weights.items()],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        content = made.SerializeToString()
        model = client.post("/api/v1/models", params={"name": "pair.onnx"}, content=content).json()
        job = create(client, workload=None, model=model["hash"], budget={"trials": 9})
        job = wait(client, job["id"])
        tasks = client.get(f"{URL}/{job['id']}/tasks").json()["items"]
        assert [task["workload"]["kind"] for task in tasks] == kinds
        assert [task["weight"] for task in tasks] == [1, 1, 0][: len(kinds)]
        assert all(task["best_s"] for task in tasks)
        layers_ms = sum(1e3 * task["best_s"] for task in tasks[:2])
        assert layers_ms <= job["estimated_ms"] < 1.5 * layers_ms


def test_a_model_is_tuned(client: TestClient, engine: FakeEngine) -> None:
    model = client.post("/api/v1/models", params={"name": "net.onnx"}, content=conv_model()).json()
    job = create(client, workload=None, model=model["hash"], budget={"trials": 30})
    assert (job["model"], job["model_name"], job["workload"]) == (model["hash"], "net.onnx", None)
    seen = events(client, job["id"])
    job = wait(client, job["id"])
    assert (job["state"], job["message"], job["failed"], job["reused"]) == ("done", "", 0, 0)
    assert (job["peak_gflops"], job["eta_s"], job["errors"]) == (100.0, None, {})
    assert 2 <= job["trials"] <= 30
    assert job["trials"] == len(engine.measured)
    assert job["trials_per_s"] > 0

    assert [name for _, name, _ in seen[:2]] == ["state", "state"]
    assert seen[-1][1:] == ("end", {"state": "done"})
    assert sum(name == "trial" for _, name, _ in seen) == job["trials"]
    ids = [int(id_) for id_, _, _ in seen]
    assert ids == sorted(set(ids))
    assert events(client, job["id"], after=seen[4][0]) == seen[5:]
    # Who has seen the end is told again, so that no client waits for ever.
    assert [name for _, name, _ in events(client, job["id"], after=seen[-1][0])] == ["state", "end"]

    tasks = client.get(f"{URL}/{job['id']}/tasks").json()["items"]
    assert [task["weight"] for task in tasks] == [1, 2]
    for task in tasks:
        costs = [cost for _, cost in task["curve"]]
        assert costs == sorted(costs, reverse=True)
        assert costs[-1] == task["best_s"]
        assert task["gflops"] == pytest.approx(task["flops"] / task["best_s"] / 1e9)
        assert task["share_of_peak"] == pytest.approx(task["gflops"] / 100)
        assert task["recommended_s"] >= task["best_s"] / 1.02
        assert task["best_config"]["kernel"]
    # The model is not built here, so what is no layer is as predicted, in the curve too.
    layers_ms = sum(1e3 * task["weight"] * task["best_s"] for task in tasks)
    assert layers_ms <= job["estimated_ms"] < 1.5 * layers_ms
    curve = client.get(f"{URL}/{job['id']}/progress").json()["points"]
    assert curve[-1]["estimated_ms"] == pytest.approx(job["estimated_ms"])
    told = [data["estimated_ms"] for _, name, data in seen if name in ("best", "progress")]
    assert told[-1] == pytest.approx(job["estimated_ms"])

    lines = client.get(f"{URL}/{job['id']}/log").text.splitlines()
    (relayouts,) = read_relayouts(lines)
    assert (relayouts.threads, relayouts.relayouts["nchw>nhwc"][0]) == (1, (3136, 1e-6))
    log = list(read_log(lines))
    assert len(log) >= len({(each.workload.key, each.layouts) for each in log}) >= 2
    for task in tasks:
        fastest = min((e for e in log if e.workload.key == task["workload_key"]), key=lambda e: e.ranking_s)
        assert fastest.config.to_json() == task["best_config"]
        assert task["best_layouts"] == str(fastest.layouts)
    everything = client.get(f"{URL}/{job['id']}/log", params={"select": "all"}).text
    assert len(list(read_log(everything.splitlines()))) == job["trials"]
    best = client.get(
        "/api/v1/configs/best",
        params={"workload": tasks[0]["workload_key"], "target": "host", "layouts": "any"},
    ).json()
    assert (best["config"], best["verified_s"]) == (tasks[0]["best_config"], tasks[0]["best_s"])
    records = client.get("/api/v1/records", params={"job": job["id"], "limit": 500}).json()["items"]
    assert len(records) == job["trials"]


def test_a_second_job_reuses_what_is_known(client: TestClient, engine: FakeEngine) -> None:
    first = wait(client, create(client)["id"])
    measured = len(engine.measured)
    second = wait(client, create(client)["id"])
    assert (second["trials"], second["reused"]) == (12, 12)
    assert len(engine.measured) == measured == first["trials"]
    assert engine.peaks == 1
    listed = client.get(URL, params={"limit": 1}).json()
    assert [job["id"] for job in listed["items"]] == [second["id"]]
    listed = client.get(URL, params={"limit": 1, "after": listed["next"]}).json()
    assert ([job["id"] for job in listed["items"]], listed["next"]) == ([first["id"]], None)
    assert client.get(URL, params={"state": "failed"}).json()["items"] == []


def test_an_exact_job_has_only_exact_records(client: TestClient, engine: FakeEngine) -> None:
    """However fast the relaxed ones are that an earlier job has found."""
    large = {"workload": to_json(Conv2d(1, 64, 56, 56, 64, 3, 3, pad=(1, 1, 1, 1))), "strategy": "random"}
    relaxed = wait(client, create(client, **large, budget={"trials": 40})["id"])
    exact = wait(client, create(client, **large, numerics="exact", budget={"trials": 40})["id"])
    assert (relaxed["numerics"], exact["numerics"]) == ("exact-integers", "exact")
    assert exact["state"] == "done"
    records = client.get("/api/v1/records", params={"limit": 500}).json()["items"]
    assert {record["numerics"] for record in records} == {"relaxed", "exact"}
    ours = client.get("/api/v1/records", params={"job": exact["id"], "limit": 500}).json()["items"]
    assert {record["numerics"] for record in ours} == {"exact"}
    assert exact["reused"] > 0
    (task,) = client.get(f"{URL}/{exact['id']}/tasks").json()["items"]
    costs = {record["id"]: record["verified_s"] or record["cost_s"] for record in records}
    fastest = min(ours, key=lambda record: costs[record["id"]])
    assert task["best_config"] == fastest["config"]

    query = {"workload": task["workload_key"], "target": "host"}
    best = {
        numerics: client.get("/api/v1/configs/best", params={**query, "numerics": numerics}).json()
        for numerics in ("exact", "relaxed")
    }
    exact_ids = [record["id"] for record in records if record["numerics"] == "exact"]
    assert best["exact"]["id"] == min(exact_ids, key=costs.__getitem__)
    assert best["relaxed"]["id"] == min(costs, key=costs.__getitem__)
    head, line, *_ = client.get("/api/v1/targets/host/log", params={"numerics": "exact"}).text.splitlines()
    assert json.loads(head)["log"] == "Tilefleet tuning log"
    assert json.loads(line)["config"] == best["exact"]["config"]
    assert client.get("/api/v1/configs/best", params={**query, "numerics": "sloppy"}).status_code == 422


def test_a_job_with_a_task_that_has_no_config_is_incomplete(client: TestClient) -> None:
    model = client.post("/api/v1/models", params={"name": "net.onnx"}, content=conv_model()).json()
    job = wait(client, create(client, workload=None, model=model["hash"], budget={"trials": 1})["id"])
    assert (job["state"], job["trials"], job["estimated_ms"]) == ("incomplete", 1, None)
    assert "the budget ended before their first trial" in job["message"]
    tasks = client.get(f"{URL}/{job['id']}/tasks").json()["items"]
    assert sorted(task["state"] for task in tasks) == ["done"] + ["untried"] * (len(tasks) - 1)
    assert client.get(URL, params={"state": "incomplete"}).json()["items"] == [job]
    assert 'tilefleet_jobs{state="incomplete"} 1.0' in client.get("/metrics").text
    assert client.post(f"{URL}/{job['id']}/resume").status_code == 200


def test_failed_trials_are_counted_by_kind(client: TestClient, engine: FakeEngine) -> None:
    kinds = [None, ErrorKind.CRASH, ErrorKind.WRONG_RESULT, ErrorKind.UPLOAD_ERROR]

    def fault(candidate: Candidate) -> ErrorKind | None:
        return kinds[int(candidate.config.key, 16) % 4]

    engine.fault = fault
    job = wait(client, create(client, budget={"trials": 24})["id"])
    (task,) = client.get(f"{URL}/{job['id']}/tasks").json()["items"]
    assert set(job["errors"]) == {"crash", "wrong_result", "upload_error"}
    assert (job["failed"], task["errors"]) == (sum(job["errors"].values()), job["errors"])
    assert task["messages"] == {kind: f"it was {kind}" for kind in job["errors"]}
    found = client.get("/api/v1/records", params={"error": "crash", "job": job["id"]}).json()["items"]
    assert len(found) == job["errors"]["crash"]
    metrics = client.get("/metrics").text
    assert f'tilefleet_trials_total{{outcome="crash"}} {job["errors"]["crash"]}.0' in metrics
    assert f"tilefleet_infrastructure_failures_total {job['errors']['upload_error']}.0" in metrics
    assert 'tilefleet_jobs{state="done"} 1.0' in metrics
    assert 'tilefleet_board_up{board="host"} 1.0' in metrics
    assert 'tilefleet_http_requests_total{operation="get_job",status="200"}' in metrics


def test_cancel_and_resume_repeat_nothing(client: TestClient, engine: FakeEngine) -> None:
    engine.most = 3
    job = create(client, budget={"trials": 14})
    while len(engine.measured) < 3:
        time.sleep(0.01)
    cancelled = client.post(f"{URL}/{job['id']}/cancel")
    assert (cancelled.status_code, cancelled.json()["state"]) in [(200, "cancelling"), (200, "cancelled")]
    cancelled = wait(client, job["id"])
    assert cancelled["state"] == "cancelled"
    assert 0 < cancelled["trials"] < 14
    tasks = client.get(f"{URL}/{job['id']}/tasks").json()["items"]
    assert [task["state"] for task in tasks] == ["stopped"], "more trials were to come"
    assert events(client, job["id"])[-1][1:] == ("end", {"state": "cancelled"})
    again = client.post(f"{URL}/{job['id']}/cancel")
    assert again.status_code == 409
    assert "cancelled" in again.json()["detail"]

    engine.most = math.inf
    resumed = client.post(f"{URL}/{job['id']}/resume")
    assert (resumed.status_code, resumed.json()["state"]) in [(200, "queued"), (200, "running")]
    done = wait(client, job["id"])
    assert (done["state"], done["trials"]) == ("done", 14)
    assert len(engine.measured) == len(set(engine.measured))
    assert done["elapsed_s"] > cancelled["elapsed_s"]
    seen = events(client, job["id"])
    assert [name for _, name, _ in seen].count("end") == 1
    assert seen[-1][1:] == ("end", {"state": "done"})


def test_a_resumed_job_has_the_budget_that_it_is_given(client: TestClient, engine: FakeEngine) -> None:
    job = create(client, budget={"trials": 2})
    resume = f"{URL}/{job['id']}/resume"
    before = wait(client, job["id"])
    assert before["trials"] == 2
    for wrong in ({}, {"trials": 0}, {"seconds": -1}, {"trials": 1, "more": 1}, [3]):
        refused = client.post(resume, json=wrong)
        assert refused.status_code == 422, wrong
    assert client.get(f"{URL}/{job['id']}").json()["budget"] == {"trials": 2, "seconds": None}
    assert client.post(resume, json={"trials": 3}).json()["budget"] == {"trials": 5, "seconds": None}
    assert wait(client, job["id"])["trials"] == 5
    assert len(engine.measured) == len(set(engine.measured)) == 5
    again = client.post(resume, json={"trials": 2**31 - 1, "seconds": 1e-6}).json()["budget"]
    assert (again["trials"], again["seconds"] > before["elapsed_s"]) == (2**31 - 1, True)
    assert wait(client, job["id"])["state"] == "done"


def test_a_stop_hands_jobs_back_and_the_next_process_goes_on(
    settings: Settings, engine: FakeEngine, nursery: Nursery
) -> None:
    """Nobody has to resume them; only one that a user was ending is over."""
    engine.most = 3
    with TestClient(create_app(settings, engine.open, nursery)) as client:
        job = create(client, budget={"trials": 14})
        while len(engine.measured) < 3:
            time.sleep(0.01)
    db = Database(settings.database)
    with db.read() as session:
        row = session.get_one(JobRow, job["id"])
        assert (row.state, row.owner, row.finished, row.message) == ("queued", None, None, "")
    db.close()
    engine.most = math.inf
    with TestClient(create_app(settings, engine.open, nursery)) as client:
        done = wait(client, job["id"])
    assert (done["state"], done["trials"]) == ("done", 14)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"target": "z80"}, ["z80", "host", "x86-avx2"]),
        ({"target": "x86-avx512"}, ["x86-avx512", "no board", "host"]),
        ({"strategy": "luck"}, ["luck", "random", "evolution", "tilefleet.strategies"]),
        ({"strategy": "kernels.space:Config"}, ["unknown strategy", "entry point"]),
        ({"strategy": "a.module.of.the.lab:StrategyOfMine"}, ["at most 32 characters", "entry point"]),
        ({"budget": {}}, ["trials, seconds or both"]),
        ({"budget": {"trials": 0}}, ["budget.trials", "greater than or equal to 1"]),
        ({"budget": {"trials": -3}}, ["budget.trials"]),
        ({"budget": {"seconds": 0}}, ["budget.seconds", "greater than 0"]),
        ({"budget": {"seconds": -1}}, ["budget.seconds"]),
        ({"budget": {"seconds": 1e300}}, ["budget.seconds"]),
        ({"budget": {"minutes": 3}}, ["minutes"]),
        ({"threads": 0}, ["threads"]),
        ({"threads": 64}, ["threads", "at most 2"]),
        ({"model": "0" * 64}, ["model", "workload"]),
        ({"workload": None}, ["model", "workload"]),
        ({"workload": None, "model": "0" * 64}, ["no model", "0" * 64]),
        ({"workload": {"kind": "fft"}}, ["fft", "conv2d"]),
        ({"workload": {**GEMM, "m": 0}}, ["m must be a positive integer"]),
        ({"workload": {**GEMM, "k": 2**40}}, ["data of the workload", "GiB", "at most 2 GiB"]),
        ({"workload": {**CONV, "in_h": 2**20, "in_w": 2**20}}, ["data of the workload", "GiB"]),
        ({"shapes": {"x": [1]}}, ["shapes"]),
        ({"tragets": "host"}, ["tragets"]),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # nothing here reaches the database
def test_impossible_jobs_are_refused(client: TestClient, fields: dict[str, Any], words: list[str]) -> None:
    body = {"workload": GEMM, "target": "host", "budget": {"trials": 4}, **fields}
    response = client.post(URL, json={name: value for name, value in body.items() if value is not None})
    assert response.status_code == 422, response.text
    problem = response.json()
    assert not [word for word in words if word not in problem["detail"]], problem
    assert problem["errors"][0]["loc"][0] == "body"
    assert client.get(URL).json()["items"] == []


def test_a_job_of_several_sets_of_shapes_has_the_layers_of_all(client: TestClient) -> None:
    sets = [{"x": [1, 3, 8, 8]}, {"x": [2, 3, 8, 8]}]
    body = conv_model(("batch", 3, 8, 8))
    model = client.post("/api/v1/models", params={"shapes": json.dumps(sets)}, content=body).json()
    assert [each[0]["shape"] for each in (model["inputs"], *model["more_inputs"])] == [s["x"] for s in sets]
    job = create(client, workload=None, model=model["hash"], shapes=[*sets, {"x": [5, 3, 8, 8]}])
    tasks = client.get(f"{URL}/{job['id']}/tasks").json()["items"]
    assert [each["workload"]["n"] for each in tasks] == [1, 1, 2, 2, 5, 5]
    assert job["shapes"] == [*sets, {"x": [5, 3, 8, 8]}]
    request = {"model": model["hash"], "target": "host", "shapes": []}
    assert client.post(URL, json=request).status_code == 422


def test_job_shapes_extract_anew(client: TestClient) -> None:
    body = conv_model(("batch", 3, 8, 8))
    model = client.post("/api/v1/models", params={"shapes": '{"x": [1, 3, 8, 8]}'}, content=body).json()
    job = create(client, workload=None, model=model["hash"], shapes={"x": [3, 3, 8, 8]})
    tasks = client.get(f"{URL}/{job['id']}/tasks").json()["items"]
    assert [task["workload"]["n"] for task in tasks] == [3, 3]
    wait(client, job["id"])


def test_events_go_through_redis_when_it_is_set(
    settings: Settings, engine: FakeEngine, nursery: Nursery, redis_url: str
) -> None:
    """The history outlives the process that published it."""
    settings = settings.model_copy(update={"redis_url": redis_url})
    with TestClient(create_app(settings, engine.open, nursery)) as client:
        job = create(client)
        seen = events(client, job["id"])
    with TestClient(create_app(settings, engine.open, nursery)) as client:
        assert events(client, job["id"]) == seen
    assert [name for _, name, _ in seen][-1] == "end"
    assert sum(name == "trial" for _, name, _ in seen) == 12


def test_a_job_resumed_at_the_moment_it_ends_runs_again(client: TestClient) -> None:
    job = create(client, budget={"trials": 3})
    for _ in range(10):
        wait(client, job["id"], "done")
        assert client.post(f"{URL}/{job['id']}/resume").status_code == 200
    assert wait(client, job["id"])["trials"] == 3
    assert client.get(f"{URL}/{job['id']}").json()["errors"] == {}


def test_nul_in_a_parameter_is_no_crash(client: TestClient) -> None:
    for path in ("/api/v1/records?workload=%00", "/api/v1/configs/best?workload=%00&target=host"):
        assert client.get(path).status_code in (200, 404, 422)
    assert client.get("/api/v1/targets/%00").status_code == 404
    assert client.get("/api/v1/records?target=%00").status_code in (404, 422)


def test_unknown_jobs_are_404(client: TestClient) -> None:
    for method, path in (
        ("GET", ""),
        ("GET", "/tasks"),
        ("GET", "/events"),
        ("GET", "/log"),
        ("POST", "/cancel"),
        ("POST", "/resume"),
    ):
        response = client.request(method, f"{URL}/7{path}")
        assert (response.status_code, response.json()["detail"]) == (404, "there is no job 7"), path


def test_broken_json_is_a_problem(client: TestClient) -> None:
    response = client.post(URL, content=b'{"model": ', headers={"Content-Type": "application/json"})
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    response = client.post(URL, json={"target": "x" * (2 << 20)})
    assert (response.status_code, "1 MB" in response.json()["detail"]) == (413, True)


def test_boards_and_targets(client: TestClient) -> None:
    (board,) = client.get("/api/v1/boards").json()["items"]
    assert (board["id"], board["target"], board["activity"], board["threads"]) == ("host", "host", "idle", 2)
    assert client.get("/api/v1/targets/host").json()["cpu"] == HOST.cpu


def test_thinning_keeps_the_ends() -> None:
    points = [(at, 1.0 / (at + 1)) for at in range(1234)]
    thinned = thin(points, 200)
    assert (len(thinned), thinned[0], thinned[-1]) == (200, points[0], points[-1])
    assert thinned == sorted(set(thinned))
    assert thin(points[:7], 200) == points[:7]
