"""Every column of JSON holds what it should not: no list fails, and what can be read is still there."""

from __future__ import annotations

import re
import time
from typing import Any

from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from server_samples import conv_model, record
from sqlalchemy import JSON, Table, select, text, update
from test_records import import_

from kernels.workload.base import Gemm, to_json
from server.db.database import Database
from server.db.tables import Base
from tuner.backend.check import Check, Delivery

DAMAGES = ["not json", "[1]", '{"a": "b", "seconds": "x", "problem": 7}']
SAID = re.compile("cannot be read in the database|no record of workload")
LEFT_OUT = ("/insight", "/explanation", "/forecast", "/boards/events")
"""What children work out, and what has no end."""


def job_of(client: TestClient, **body: object) -> int:
    """A job that has ended."""
    answer = client.post("/api/v1/jobs", json={"target": "host", "budget": {"trials": 3}, **body})
    job: int = answer.json()["id"]
    deadline = time.monotonic() + 120
    while client.get(f"/api/v1/jobs/{job}").json()["state"] != "done":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return job


def paths(client: TestClient, **names: str) -> list[str]:
    """What there is to GET, of these things."""
    found = []
    for path, methods in client.app.openapi()["paths"].items():  # type: ignore[attr-defined]
        if "get" in methods and not path.endswith(LEFT_OUT):
            needed = [each["name"] for each in methods["get"].get("parameters", ()) if each["required"]]
            query = "&".join(f"{each}={names[each]}" for each in needed if f"{{{each}}}" not in path)
            found.append(path.format(**names) + f"?{query}")
    return found


def columns() -> list[tuple[Table, Any]]:
    tables = Base.metadata.sorted_tables
    return [(table, each) for table in tables for each in table.columns if isinstance(each.type, JSON)]


def test_no_document_takes_a_list_with_it(client: TestClient, db: Database, engine: FakeEngine) -> None:
    check = Check(1e-4, {"y": 1e-6}, {"y": 1e-4}, "onnxruntime", where="board host")
    engine.delivery = Delivery(check, seconds=1e-3)
    model = client.post("/api/v1/models", content=conv_model()).json()["hash"]
    workload = Gemm(m=8, n=8, k=8)
    jobs = [job_of(client, model=model), job_of(client, workload=to_json(workload))]
    assert import_(client, record(1, workload)).status_code == 200
    names = {"model_hash": model, "board_id": "host", "name": "host", "target": "host"}
    asked = paths(client, job_id=str(jobs[0]), key=workload.key, workload=workload.key, **names)
    asked += [f"/api/v1/jobs/{jobs[1]}/{part}" for part in ("", "tasks", "progress", "log")]
    assert {path for path in asked if client.get(path).status_code != 200} == set()
    assert len(asked) > 30
    whole = {"models", "workloads", "targets"}  # which hides what is wrong with its parts
    for group, damages in (({each.name for each, _ in columns()} - whole, DAMAGES), (whole, DAMAGES[-1:])):
        damaged = [(table, column) for table, column in columns() if table.name in group]
        for damage in damages:
            if damage == "not json" and not db.sqlite:  # PostgreSQL takes none
                continue
            kept = []
            with db.write() as session:
                for table, column in damaged:
                    kept.append(session.execute(select(column, *table.primary_key.columns)).all())
                    session.execute(text(f"update {table} set {column.name} = :damage"), {"damage": damage})
            for path in asked:
                answer = client.get(path)
                where = (group, damage, path, answer.text[:300])
                assert answer.status_code in (200, 404), where
                assert answer.status_code == 200 or SAID.search(answer.text), where
            with db.write() as session:
                for (table, column), rows in zip(damaged, kept, strict=True):
                    for value, *key in rows:
                        of = [each == at for each, at in zip(table.primary_key.columns, key, strict=True)]
                        session.execute(update(table).where(*of).values({column.name: value}))
    assert {path for path in asked if client.get(path).status_code != 200} == set()


def test_a_model_that_cannot_be_read_is_mended_by_its_file(client: TestClient, db: Database) -> None:
    url, files = "/api/v1/models", [conv_model(), conv_model(channels=8)]
    first, second = (client.post(url, content=each).json() for each in files)
    with db.write() as session:
        session.execute(text("update models set extraction = '{}' where hash = :hash"), first)
    assert [each["hash"] for each in client.get(url).json()["items"]] == [second["hash"]]
    assert client.get(url, params={"limit": 1, "after": second["hash"]}).json() == {"items": [], "next": None}
    refused = client.get(f"{url}/{first['hash']}")
    assert (refused.status_code, "upload its file again" in refused.text) == (404, True)
    asked = {"model": first["hash"], "target": "host"}
    assert "upload its file again" in client.post("/api/v1/jobs", json=asked).json()["detail"]
    assert client.post(url, content=files[0]).json() == first
    assert client.get(f"{url}/{first['hash']}").json() == first


def test_targets_and_workloads_are_written_anew(client: TestClient, db: Database) -> None:
    workload = Gemm(m=8, n=8, k=8)
    assert import_(client, record(1, workload)).status_code == 200
    with db.write() as session:
        for table in ("targets", "workloads"):
            session.execute(text(f"update {table} set document = '7'"))
    assert client.get("/api/v1/records").json()["items"] == []
    assert import_(client, record(2, workload)).status_code == 200
    assert len(client.get("/api/v1/records").json()["items"]) == 2
