"""Jobs found, named, labelled and deleted over the API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from server_samples import TARGET, conv_model
from sqlalchemy import select

from kernels.workload.base import Gemm, to_json
from server.db.database import Database
from server.db.tables import JobRow, LabelRow, RecordRow, TaskRow, TrialRow
from server.jobs.progress import Fall, largest
from server.records import repository
from server.settings import Settings

URL = "/api/v1/jobs"
WORKLOAD = Gemm(m=8, n=8, k=8)


def store(settings: Settings, jobs: list[dict[str, Any]]) -> list[int]:
    """Jobs that ended, as rows; their ids."""
    database = Database(settings.database)
    with database.write() as session:
        repository.add_targets(session, [TARGET])
        repository.add_workloads(session, [WORKLOAD])
        ids = []
        for number, fields in enumerate(jobs, start=1):
            labels = fields.pop("labels", [])
            common: dict[str, Any] = {
                "workload_key": WORKLOAD.key,
                "target_key": TARGET.key,
                "threads": 1,
                "clock": "wall",
            }
            row = JobRow(
                **{**common, "strategy": "model", "seed": 0, "state": "done", "id": number, **fields}
            )
            session.add(row)
            session.flush()
            session.add_all(LabelRow(job_id=row.id, label=label) for label in labels)
            ids.append(row.id)
    database.close()
    return ids


def ids(client: TestClient, **params: Any) -> list[int]:
    response = client.get(URL, params=params)
    assert response.status_code == 200, response.text
    body = response.json()
    if not body["next"] and "after" not in params:
        assert body["total"] == len(body["items"])
    return [job["id"] for job in body["items"]]


def test_jobs_are_filtered_searched_and_sorted(client: TestClient, settings: Settings) -> None:
    names = [("Before", ["nightly", "pi"]), ("after 100%", ["nightly"]), ("", []), ("before", ["x/y"])]
    states = ["done", "failed", "cancelled", "done"]
    ended = [datetime(2026, 11, day, tzinfo=UTC) if day else None for day in (3, 1, 0, 2)]
    store(
        settings,
        [
            {
                "name": name,
                "labels": labels,
                "state": state,
                "elapsed_s": float(10 - at),
                "submitter": "ada",
                "finished": end,
            }
            for at, ((name, labels), state, end) in enumerate(zip(names, states, ended, strict=True))
        ],
    )
    assert ids(client) == [4, 3, 2, 1]
    assert ids(client, order="up") == [1, 2, 3, 4]
    assert ids(client, state=["failed", "cancelled"]) == [3, 2]
    assert ids(client, label="nightly") == [2, 1]
    assert ids(client, label=["nightly", "pi"]) == [1]
    assert ids(client, search="BEFORE") == [4, 1]
    assert ids(client, search="before pi") == [1]
    assert ids(client, search="100%") == [2]  # no wildcard
    assert ids(client, search="3") == [3]
    assert ids(client, search="x/y") == [4]
    assert ids(client, search="ada nightly", state="failed") == [2]
    assert ids(client, target=TARGET.name) == [4, 3, 2, 1]
    assert ids(client, target="host") == ids(client, model="none.onnx") == []
    assert ids(client, sort="elapsed") == [1, 2, 3, 4]
    assert ids(client, sort="finished") == [3, 1, 4, 2]  # what has not ended is the last to end
    assert ids(client, sort="finished", order="up", limit=2) == [2, 4]
    assert ids(client, sort="finished", order="up", after=4) == [1, 3]
    assert ids(client, sort="finished", after=1) == [4, 2]
    assert ids(client, sort="finished", after=3) == [1, 4, 2]
    assert ids(client, sort="name", order="up") == [3, 2, 1, 4]
    assert ids(client, sort="state", order="up") == [3, 1, 4, 2]
    for refused in ({"sort": "seed"}, {"order": "x"}, {"state": "x"}, {"sorted": "id"}, {"model": ""}):
        assert client.get(URL, params=refused).status_code == 422, refused
    assert client.get(f"{URL}/labels").json() == {
        "items": [
            {"label": "nightly", "jobs": 2},
            {"label": "pi", "jobs": 1},
            {"label": "x/y", "jobs": 1},
        ]
    }


@pytest.mark.parametrize("sort", ["id", "name", "target", "elapsed", "finished"])
def test_pages_have_each_job_once(client: TestClient, settings: Settings, sort: str) -> None:
    """Also where many are the same by what is sorted."""
    store(settings, [{"name": "same" if at % 3 else "other", "elapsed_s": at % 2} for at in range(11)])
    for order in ("down", "up"):
        whole = ids(client, sort=sort, order=order)
        found: list[int] = []
        after = None
        while True:
            params = {"sort": sort, "order": order, "limit": 4} | ({"after": after} if after else {})
            body = client.get(URL, params=params).json()
            assert body["total"] == 11
            found += [job["id"] for job in body["items"]]
            if (after := body["next"]) is None:
                break
        assert found == whole


def test_a_job_is_named_and_labelled(client: TestClient) -> None:
    body = {"workload": to_json(WORKLOAD), "target": "host", "budget": {"trials": 3}}
    made = client.post(URL, json={**body, "name": " mine ", "labels": ["b", "a"], "submitter": "ada"}).json()
    assert (made["name"], made["labels"], made["submitter"]) == ("mine", ["a", "b"], "ada")
    assert made["version"]
    url = f"{URL}/{made['id']}"
    assert client.patch(url, json={"name": "another"}).json()["labels"] == ["a", "b"]
    changed = client.patch(url, json={"labels": ["b", "c"]}).json()
    assert (changed["name"], changed["labels"]) == ("another", ["b", "c"])
    assert client.patch(url, json={"name": "", "labels": []}).json()["labels"] == []
    for refused in ({}, {"name": "x" * 201}, {"labels": ["two words"]}, {"name": "a\nb"}, {"state": "done"}):
        answer = client.patch(url, json=refused)
        assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert client.patch(f"{URL}/99", json={"name": "x"}).status_code == 404


def wait(client: TestClient, job: int) -> dict[str, Any]:
    client.get(f"{URL}/{job}/events")  # until it ends
    found: dict[str, Any] = client.get(f"{URL}/{job}").json()
    assert found["state"] in ("done", "cancelled"), found
    return found


def test_a_deleted_job_leaves_its_records(client: TestClient, settings: Settings, engine: FakeEngine) -> None:
    model = client.post("/api/v1/models", params={"name": "net.onnx"}, content=conv_model()).json()
    body = {"model": model["hash"], "target": "host", "budget": {"trials": 12}, "labels": ["x"]}
    kept, gone = (client.post(URL, json=body).json()["id"] for _ in range(2))
    wait(client, kept)
    wait(client, gone)
    assert ids(client, model="net.onnx") == ids(client, model=model["hash"][:12]) == [gone, kept]
    before = client.get("/api/v1/records").json()["items"]
    best = client.get("/api/v1/targets/host/log").text
    assert client.delete(f"{URL}/{gone}").status_code == 204
    assert client.get("/api/v1/records").json()["items"] == before
    assert client.get("/api/v1/targets/host/log").text == best
    assert ids(client) == [kept]
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/tasks"), ("POST", "/resume")):
        answer = client.request(method, f"{URL}/{gone}{path}")
        assert (answer.status_code, "was deleted on" in answer.json()["detail"]) == (404, True)
    again = client.post(URL, json=body).json()["id"]
    assert again > gone  # what leases and logs say of the old one is not said of another
    found = wait(client, again)
    assert found["reused"] > 0
    assert client.get(f"{URL}/labels").json()["items"] == [{"label": "x", "jobs": 2}]
    # Behind a job that is gone a list goes on by ids, and by nothing else.
    assert ids(client, after=again) == [kept]
    assert ids(client, after=gone) == [kept]
    answer = client.get(URL, params={"after": gone, "sort": "name"})
    assert (answer.status_code, "first page" in answer.json()["detail"]) == (422, True)


def test_a_job_that_runs_is_not_deleted(client: TestClient, engine: FakeEngine) -> None:
    engine.delay_s = 0.2
    body = {"workload": to_json(Gemm(m=64, n=64, k=64)), "target": "host", "budget": {"seconds": 600}}
    job = client.post(URL, json=body).json()["id"]
    refused = client.delete(f"{URL}/{job}")
    assert (refused.status_code, "cancel it first" in refused.json()["detail"]) == (409, True)
    client.post(f"{URL}/{job}/cancel")
    wait(client, job)
    assert client.delete(f"{URL}/{job}").status_code == 204


def test_nothing_of_a_deleted_job_is_left(client: TestClient, settings: Settings) -> None:
    body = {"workload": to_json(WORKLOAD), "target": "host", "budget": {"trials": 3}, "labels": ["x"]}
    job = client.post(URL, json=body).json()["id"]
    wait(client, job)
    assert client.delete(f"{URL}/{job}").status_code == 204
    database = Database(settings.database)
    with database.read() as session:
        for table in (JobRow, TaskRow, TrialRow, LabelRow):
            assert session.execute(select(table)).first() is None
        assert session.execute(select(RecordRow)).first() is not None
    database.close()


def test_of_many_falls_the_largest_are_shown() -> None:
    falls = [Fall(0, 9.0), *(Fall(at, 9.0 - at, 1, at % 7) for at in range(1, 50)), Fall(60, 1.0)]
    shown = largest(falls, 9)
    assert [shown[0], shown[-1]] == [falls[0], falls[-1]]
    assert [fall.gain_s for fall in shown[1:-1]] == [6] * 7
    assert shown == sorted(shown, key=lambda fall: fall.trial)
    assert largest(falls, 51) == falls
