"""What charts are drawn from: curves and trials, thinned on the server."""

from __future__ import annotations

import math

import pytest
from fastapi.testclient import TestClient
from server_samples import TARGET, record

from kernels.workload import Gemm
from server.jobs.progress import falls
from server.workloads.routes import kept
from tuner.record import write_log
from worker.outcome import ErrorKind

WORKLOAD = Gemm(m=8, n=8, k=8)


def test_the_curve_begins_when_every_task_has_a_time() -> None:
    trials = [(1, 3e-3), (1, 2e-3), (2, None), (2, 5e-3), (1, 4e-3), (1, 1e-3), (2, 6e-3)]
    points = falls({1: 2, 2: 1}, trials)
    assert [trial for trial, _ in points] == [4, 6, 7]
    assert [ms for _, ms in points] == pytest.approx([9.0, 7.0, 7.0])
    assert falls({1: 1, 2: 1}, [(1, 1e-3), (1, 5e-4)]) == []
    assert falls({}, []) == []


def test_thinning_keeps_the_fastest_and_the_order() -> None:
    costs = [(number, None if number % 10 == 0 else 1.0 / number) for number in range(1, 1001)]
    ids = kept(costs, 100)
    assert len(ids) == 100
    assert ids == sorted(ids)
    assert set(range(960, 1000)) - {960, 970, 980, 990} <= set(ids)
    assert min(ids) < 20
    assert kept(costs, 2000) == [number for number, _ in costs]


def test_a_workload_says_where_it_was_measured(client: TestClient) -> None:
    lines = write_log([record(1), record(2), record(3, error=ErrorKind.CRASH), record(4, threads=2)])
    assert client.post("/api/v1/records", content="".join(lines)).status_code == 200
    view = client.get(f"/api/v1/workloads/{WORKLOAD.key}").json()
    assert view["text"] == str(WORKLOAD)
    assert [(each["target"], each["threads"], each["records"]) for each in view["measured"]] == [
        (TARGET.name, 1, 3),
        (TARGET.name, 2, 1),
    ]
    assert math.isclose(view["measured"][0]["best_s"], 1e-6)
    trials = client.get(f"/api/v1/workloads/{WORKLOAD.key}/trials", params={"target": TARGET.name}).json()
    assert [(each["cost_s"], each["error"]) for each in trials["items"]] == [
        (1e-6, None),
        (2e-6, None),
        (None, "crash"),
    ]
    assert trials["total"] == 3
    few = client.get(f"/api/v1/workloads/{WORKLOAD.key}/trials", params={"target": TARGET.name, "limit": 2})
    assert len(few.json()["items"]) == 2


def test_what_is_not_there_is_said_so(client: TestClient) -> None:
    assert client.get("/api/v1/workloads/0000000000000000").status_code == 404
    assert client.get("/api/v1/workloads/nonsense").status_code == 422
    assert client.get("/api/v1/jobs/7/progress").status_code == 404
