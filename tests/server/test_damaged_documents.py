"""Rows with broken or wrong JSON: they fail no list, and can be deleted."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from server_samples import TARGET, record
from sqlalchemy import text
from test_boards import new_job
from test_records import URL
from test_withdrawn_records import BOARD, WORKLOAD

from server.boards.book import SqlBook
from server.db.database import Database
from server.db.tables import RelayoutRow
from server.jobs.store import SqlStore
from server.metrics import Metrics
from tuner.spec import Trial

BROKEN = ["not json", "[" * 100_000, '{"a":1}', "null", "7", '{"board": "pi-3"}']


@pytest.mark.parametrize("text_", BROKEN, ids=lambda text_: text_[:12])
def test_a_document_that_is_none_fails_no_list_and_can_be_deleted(
    client: TestClient, db: Database, text_: str
) -> None:
    if not db.sqlite and text_[0] in "n[" and text_ != "null":
        pytest.skip("PostgreSQL takes no text that is no JSON, or too deep")
    SqlBook(db).enlist([BOARD])
    job, task = new_job(db)
    trials = [Trial(task, n, record(n, board="pi-3"), False) for n in (1, 2)]
    SqlStore(db, Metrics()).save(job, trials, 1.0)
    with db.write() as session:
        key = {"target_key": TARGET.key, "threads": 1, "clock": "wall", "board": "pi-3"}
        session.add(RelayoutRow(**key, document={}))
        session.flush()
        (id_,) = session.scalars(text("select id from records where ranking_s < 1.5e-6"))
        for table, where in (("records", f"id = {id_}"), ("relayouts", "threads = 1")):
            session.execute(text(f"update {table} set document = :broken where {where}"), {"broken": text_})
    name = TARGET.name
    paths = [URL, f"{URL}/log", f"{URL}/log?format=csv", f"{URL}/damaged", f"/api/v1/configs?target={name}"]
    paths += ["/api/v1/configs/recent"]
    paths += [f"/api/v1/targets/{name}/log{select}" for select in ("", "?select=all", "?select=top")]
    paths += [f"/api/v1/jobs/{job}/{part}" for part in ("log?select=all", "tasks", "progress")]
    paths += [
        "/api/v1/jobs",
        f"/api/v1/workloads?target={name}",
        "/api/v1/boards",
        f"/api/v1/workloads/{WORKLOAD.key}/trials?target={name}",
    ]
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.text)
    assert [each["config"]["point"] for each in client.get(URL).json()["items"]] == [2]
    assert client.get("/api/v1/configs/recent").json()["items"] == []
    (found,) = client.get(f"{URL}/damaged").json()["items"]
    assert (found["id"], bool(found["problem"])) == (id_, True)
    assert client.delete(f"{URL}/{id_}").json() == {"records": 1}
    assert client.get("/api/v1/configs/recent").json()["items"][0]["config"]["point"] == 2
    with db.write() as session:
        session.execute(text("update records set document = :broken"), {"broken": text_})
    assert client.post("/api/v1/boards/pi-3/withdraw", json={"good_too": True}).status_code == 200
