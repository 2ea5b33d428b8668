"""What charts are drawn from: curves and trials, thinned on the server."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from server_samples import TARGET, record

from kernels.workload.base import Gemm, to_json
from server.boards.activity import spread
from server.http.problems import MEDIA_TYPE, Problem
from server.jobs.progress import falls
from server.services import EXPLANATIONS_WAIT
from server.workloads.repository import kept
from tuner.log.record import write_log
from worker.outcome import ErrorKind

WORKLOAD, LARGER = Gemm(m=8, n=8, k=8), Gemm(m=64, n=64, k=64)


def tuned(client: TestClient) -> int:
    """A job of five trials that has ended."""
    body = {"workload": to_json(LARGER), "target": "host", "budget": {"trials": 5}}
    job: int = client.post("/api/v1/jobs", json=body).json()["id"]
    deadline = time.monotonic() + 240
    while client.get(f"/api/v1/jobs/{job}").json()["state"] != "done":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return job


def counted(trials: list[tuple[int, float | None]]) -> list[tuple[int, int, float | None]]:
    """Trials, each with how many there were by then."""
    return [(at, *trial) for at, trial in enumerate(trials, start=1)]


def test_the_curve_begins_when_every_task_has_a_time() -> None:
    trials = [(1, 3e-3), (1, 2e-3), (2, None), (2, 5e-3), (1, 4e-3), (1, 1e-3), (2, 6e-3)]
    points = falls({1: 2, 2: 1}, {}, counted(trials), 7)
    assert [fall.trial for fall in points] == [4, 6, 7]
    assert [fall.seconds for fall in points] == pytest.approx([9e-3, 7e-3, 7e-3])
    # What each came from: the first nothing that is known, then task 1, twice in the model.
    assert [fall.task for fall in points] == [None, 1, None]
    assert [fall.gain_s for fall in points] == pytest.approx([0.0, 2e-3, 0.0])
    assert falls({1: 1, 2: 1}, {1: 1e-3}, counted([(1, 1e-3), (1, 5e-4)]), 2) == []
    assert falls({}, {}, [], 0) == []


def test_the_curve_begins_untuned() -> None:
    """What a task takes untuned is known from its first trial, which may come late."""
    trials = [(1, 3e-3), (1, 2e-3), (2, None), (2, 5e-3), (2, 1e-3)]
    points = falls({1: 2, 2: 1}, {1: 3e-3, 2: 5e-3}, counted(trials), 5)
    assert [fall.trial for fall in points] == [0, 2, 5]
    assert [fall.seconds for fall in points] == pytest.approx([11e-3, 9e-3, 5e-3])
    assert [(fall.task, round(1e3 * fall.gain_s)) for fall in points[1:]] == [(1, 2), (2, 4)]


def test_thinning_keeps_the_fastest_and_the_order() -> None:
    costs = [(number, None if number % 10 == 0 else 1.0 / number) for number in range(1, 1001)]
    ids = kept(costs, 100)
    assert len(ids) == 100
    assert ids == sorted(ids)
    assert set(range(960, 1000)) - {960, 970, 980, 990} <= set(ids)
    assert min(ids) < 20
    assert kept(costs, 2000) == [number for number, _ in costs]


def test_a_workload_says_where_it_was_measured(client: TestClient) -> None:
    placed = replace(record(2, placed_s=5e-6), cost_s=2.1234567890123457e-6)  # all digits come back
    lines = write_log([record(1), placed, record(3, error=ErrorKind.CRASH), record(4, threads=2)])
    assert client.post("/api/v1/records", content="".join(lines)).status_code == 200
    view = client.get(f"/api/v1/workloads/{WORKLOAD.key}").json()
    assert view["text"] == str(WORKLOAD)
    assert [(each["target"], each["threads"], each["records"]) for each in view["measured"]] == [
        (TARGET.name, 1, 3),
        (TARGET.name, 2, 1),
    ]
    assert math.isclose(view["measured"][0]["best_s"], 1e-6)
    trials = client.get(f"/api/v1/workloads/{WORKLOAD.key}/trials", params={"target": TARGET.name}).json()
    assert [(each["cost_s"], each["ranking_s"], each["error"]) for each in trials["items"]] == [
        (1e-6, 1e-6, None),
        (2.1234567890123457e-6, 5e-6, None),
        (None, None, "crash"),
    ]
    assert (trials["total"], trials["failed"]) == (3, 1)
    # However few are drawn, all that failed are counted.
    asked = {"target": TARGET.name, "limit": 2}
    few = client.get(f"/api/v1/workloads/{WORKLOAD.key}/trials", params=asked).json()
    assert (len(few["items"]), few["total"], few["failed"]) == (2, 3, 1)


def test_what_is_not_there_is_said_so(client: TestClient) -> None:
    assert client.get("/api/v1/workloads/0000000000000000").status_code == 404
    assert client.get("/api/v1/workloads/nonsense").status_code == 422
    assert client.get("/api/v1/jobs/7/progress").status_code == 404


def test_a_library_is_held_against_a_workload(client: TestClient) -> None:
    """The last time counts, by target, clock and threads; a job's task shows it."""
    job = tuned(client)
    url = f"/api/v1/workloads/{LARGER.key}/baselines"
    for seconds in (2e-3, 1e-3):
        stored = client.put(
            f"{url}/onnxruntime", params={"target": "host"}, json={"version": "1.31", "seconds": seconds}
        )
        assert (stored.status_code, stored.json()["seconds"]) == (200, seconds), stored.text
    client.put(f"{url}/other", params={"target": "host"}, json={"version": "2", "seconds": 5e-4})
    found = client.get(url, params={"target": "host"}).json()["items"]
    assert [(each["library"], each["version"], each["seconds"]) for each in found] == [
        ("other", "2", 5e-4),
        ("onnxruntime", "1.31", 1e-3),
    ]
    assert client.get(url, params={"target": "host", "threads": 2}).json()["items"] == []
    (task,) = client.get(f"/api/v1/jobs/{job}/tasks").json()["items"]
    assert task["baselines"] == found


@pytest.mark.parametrize(
    ("path", "params", "body", "status", "said"),
    [
        ("0000000000000000/baselines/x", {"target": "host"}, {"version": "1", "seconds": 1}, 404, "workload"),
        (f"{WORKLOAD.key}/baselines/x", {"target": "none"}, {"version": "1", "seconds": 1}, 422, "none"),
        (f"{WORKLOAD.key}/baselines/x", {"target": "host"}, {"version": "1", "seconds": 0}, 422, "seconds"),
        (f"{WORKLOAD.key}/baselines/a b", {"target": "host"}, {"version": "1", "seconds": 1}, 422, "library"),
        (f"{WORKLOAD.key}/baselines/x", {"target": "host"}, {"version": "\0", "seconds": 1}, 422, "version"),
    ],
)
def test_a_baseline_that_is_none_is_refused(
    client: TestClient, path: str, params: dict[str, str], body: dict[str, object], status: int, said: str
) -> None:
    client.post("/api/v1/records", content="".join(write_log([record(1)])))
    refused = client.put(f"/api/v1/workloads/{path}", params=params, json=body)
    assert (refused.status_code, said in refused.json()["detail"]) == (status, True), refused.text


def test_the_overview_knows_what_came_last(client: TestClient) -> None:
    job = tuned(client)
    rate = client.get("/api/v1/records/rate", params={"minutes": 3}).json()["items"]
    assert len(rate) == 3
    assert sum(minute["records"] for minute in rate) == 5
    (best,) = client.get("/api/v1/configs/recent").json()["items"]
    (task,) = client.get(f"/api/v1/jobs/{job}/tasks").json()["items"]
    assert (best["job"], best["workload_key"], best["best_s"]) == (job, LARGER.key, task["best_s"])
    assert best["config"] == task["best_config"]


def test_a_config_is_explained(client: TestClient) -> None:
    """The analysis's config on a target of which nothing was measured, then a record's that is no config."""
    client.post("/api/v1/records", content="".join(write_log([record(1)])))
    url = f"/api/v1/workloads/{WORKLOAD.key}/explanation"
    found = client.get(url, params={"target": TARGET.name, "config": "analysis"}).json()
    assert found["products"] >= WORKLOAD.flops // 2
    assert sum(line["hot"] for line in found["nest"]) == 1
    assert [cache["bytes"] for cache in found["caches"]] == [
        size for size in (TARGET.l1_bytes, TARGET.l2_bytes, TARGET.l3_bytes) if size
    ]
    assert found["measured_s"] is None
    best = client.get(url, params={"target": TARGET.name})
    assert (best.status_code, "kernel test" in best.json()["detail"]) == (422, True), best.text
    other = client.get(url, params={"target": "rpi4"})
    assert (other.status_code, "no record" in other.json()["detail"]) == (404, True), other.text


def test_explanations_that_wait_are_bounded(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound one is refused at once; those who waited get theirs, and so does who comes then."""
    client.post("/api/v1/records", content="".join(write_log([record(1)])))
    url = f"/api/v1/workloads/{WORKLOAD.key}/explanation"
    asked, done = threading.Semaphore(0), threading.Event()
    services = client.app.state.services  # type: ignore[attr-defined]  # the application's own

    def stand_in(*_: object) -> None:
        asked.release()
        assert done.wait(240)
        raise Problem(422, "nothing to be said")

    monkeypatch.setattr("server.routes.workloads.explained", stand_in)

    def ask() -> Response:
        return client.get(url, params={"target": TARGET.name, "config": "analysis"})

    with ThreadPoolExecutor(1 + EXPLANATIONS_WAIT) as pool:
        answers = [pool.submit(ask) for _ in range(1 + EXPLANATIONS_WAIT)]
        try:
            deadline = time.monotonic() + 240
            while services.compiling.waiting < EXPLANATIONS_WAIT:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            refused = ask()
            assert (refused.status_code, refused.headers["content-type"]) == (503, MEDIA_TYPE), refused.text
            assert refused.json()["detail"] == (
                f"{EXPLANATIONS_WAIT} other requests wait for this already; try again later"
            )
            assert asked.acquire(timeout=240)
            assert not asked.acquire(blocking=False), "one after the other"
        finally:
            done.set()
        assert {answer.result().status_code for answer in answers} == {422}
    assert ask().status_code == 422
    assert services.compiling.waiting == 0


def test_leases_are_spread_over_slots() -> None:
    """Of a lease that began before the first slot or reaches over two, each slot has its share."""
    slots = spread([(90.0, 110.0, 10.0, 20), (115.0, 125.0, 10.0, 5), (131.0, 140.0, 0.0, 0)], 100.0, 10.0, 4)
    assert [round(slot.leased, 6) for slot in slots] == [1.0, 0.5, 0.5, 0.9]
    assert [round(slot.timing, 6) for slot in slots] == [0.5, 0.5, 0.5, 0.0]
    assert [round(slot.trials, 6) for slot in slots] == [10.0, 2.5, 2.5, 0.0]


def test_a_board_shows_its_use(client: TestClient) -> None:
    tuned(client)
    found = client.get("/api/v1/boards/host/activity", params={"seconds": 60, "slots": 6}).json()
    assert len(found["slots"]) == 6
    assert sum(slot["trials"] for slot in found["slots"]) == pytest.approx(5)
    assert [check["drift"] for check in found["checks"]] == [1.0]
    assert client.get("/api/v1/boards/none/activity").status_code == 404
