"""Disturbed records in the database: they rank behind quiet ones and give way to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from server_samples import TARGET, record
from test_boards import new_job
from test_records import best, import_

from kernels.workload.base import Gemm
from server.db.database import Database
from server.db.tables import RecordRow, TaskRow
from server.jobs.store import SqlStore
from server.jobs.views import leaders_of
from server.metrics import Metrics
from tuner.log.record import read_log
from tuner.spec import Trial

WORKLOAD = Gemm(m=8, n=8, k=8)


def test_a_quiet_record_is_best_however_fast_a_disturbed_one(client: TestClient) -> None:
    import_(client, record(1, disturbed=True), record(5), record(3, disturbed=True), record(7))
    assert best(client).json()["config"]["point"] == 5
    assert best(client, layouts="any").json()["config"]["point"] == 5

    def points(**params: object) -> list[int | str]:
        text = client.get("/api/v1/targets/x86-avx2/log", params=params).text
        return [each.config["point"] for each in read_log(text.splitlines())]

    assert points(select="best") == [5]
    assert points(select="top", k=3) == [5, 7, 1]
    (view,) = client.get(f"/api/v1/workloads/{WORKLOAD.key}").json()["measured"]
    assert view["best_s"] == pytest.approx(5e-6)
    params = {"target": TARGET.name, "limit": 2}
    trials = client.get(f"/api/v1/workloads/{WORKLOAD.key}/trials", params=params)
    shown = {each["config"]["point"]: each["disturbed"] for each in trials.json()["items"]}
    assert shown[5] is False


def test_among_disturbed_ones_the_fastest_is_best(client: TestClient) -> None:
    import_(client, record(3, disturbed=True), record(2, disturbed=True))
    found = best(client).json()
    assert (found["config"]["point"], found["disturbed"]) == (2, True)
    (view,) = client.get(f"/api/v1/workloads/{WORKLOAD.key}").json()["measured"]
    assert view["best_s"] == pytest.approx(2e-6)


def test_it_gives_way_to_another_measurement(client: TestClient) -> None:
    quiet = replace(record(1), cost_s=4e-6)
    import_(client, record(1, disturbed=True), record(2))
    assert import_(client, quiet, record(2, disturbed=True)).json() == {"imported": 1, "duplicates": 1}
    text = client.get("/api/v1/targets/x86-avx2/log", params={"select": "all"}).text
    assert list(read_log(text.splitlines())) == [replace(e, imported=True) for e in (quiet, record(2))]


def test_tasks_have_quiet_bests_of_other_jobs_too(db: Database) -> None:
    store = SqlStore(db, Metrics())
    (first, task), (second, other) = new_job(db), new_job(db)
    store.save(first, [Trial(task, at, record(at + 1, disturbed=True)) for at in range(2)], 1.0)

    def best_of(task_id: int) -> RecordRow:
        with db.read() as session:
            return session.get_one(RecordRow, session.get_one(TaskRow, task_id).best_id)

    assert best_of(task).ranking_s == 1e-6
    store.save(second, [Trial(other, 0, replace(record(2), cost_s=6e-6))], 1.0)
    for each in (task, other):
        assert (best_of(each).ranking_s, best_of(each).disturbed) == (6e-6, False)
    with db.read() as session:
        assert [row[3] for row in session.execute(leaders_of(first).order_by("number"))] == [None, 6e-6]
    assert store.remeasured(replace(record(1), verified_s=3e-6), record(1, disturbed=True))
    assert best_of(task).ranking_s == 3e-6
