"""Curves through the trials that lead are those through all trials."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from alembic import command
from fastapi.testclient import TestClient
from server_samples import record
from sqlalchemy import select, text
from test_boards import new_job
from test_records import import_
from test_withdrawn_records import BOARD

from server.boards.book import SqlBook
from server.db.database import Database, alembic_config
from server.db.tables import TaskRow, TrialRow
from server.jobs.store import SqlStore
from server.metrics import Metrics
from server.records.bests import choose_best
from tuner.spec import Trial
from worker.outcome import ErrorKind


def marks(db: Database) -> list[int]:
    with db.read() as session:
        return sorted(session.scalars(select(TrialRow.id).where(TrialRow.leads)))


def test_curves_are_those_of_all_trials(client: TestClient, db: Database) -> None:
    SqlBook(db).enlist([BOARD])
    store, rng = SqlStore(db, Metrics()), random.Random(0)
    job, task = new_job(db)

    def some(number: int) -> Any:
        at = rng.randrange(1, 2000)
        if rng.random() < 0.1:
            return record(number + 10, error=ErrorKind.CRASH, message="x", board="pi-3")
        return record(
            number + 10, cost_s=at * 1e-6, disturbed=rng.random() < 0.5, board=rng.choice(["pi-3", "b"])
        )

    def curves() -> list[Any]:
        return [client.get(f"/api/v1/jobs/{job}/{part}").json() for part in ("tasks", "progress")]

    def check() -> None:
        found, right = curves(), marks(db)
        with db.write() as session:
            session.execute(text("update trials set leads = true"))
        assert curves() == found
        with db.engine.begin() as connection:
            command.downgrade(alembic_config(connection), "0018")
            command.upgrade(alembic_config(connection), "head")
        assert set(marks(db)) <= set(right)
        assert curves() == found

    numbers = [*range(60)]
    for start in range(0, 60, 6):  # results of a batch come in any order, and late ones after the next batch
        part = numbers[start : start + 9]
        rng.shuffle(part)
        store.save(job, [Trial(task, number, some(number), False) for number in part], 1.0)
        with db.write() as session:
            kept = session.get_one(TaskRow, task).best_id
            choose_best(session, task)
            session.expire_all()
            assert session.get_one(TaskRow, task).best_id == kept
    check()
    assert 2 < len(marks(db)) < 30
    # A quiet time takes the place of a disturbed one in another job's trial; a best is withdrawn.
    with db.read() as session:
        disturbed = [row.record_id for row in session.scalars(select(TrialRow).order_by(TrialRow.number))]
    known = [each for each in store.trials(job) if each.record.disturbed]
    assert len(disturbed) == 60
    assert len(known) > 5
    store.save(
        job,
        [
            replace(each, record=replace(each.record, disturbed=False, cost_s=1e-7 * (9 - at)))
            for at, each in enumerate(known[:3])
        ],
        1.0,
    )
    check()
    before = known[3].record
    assert store.remeasured(replace(before, disturbed=False, verified_s=1e-8), before)
    check()
    assert client.post("/api/v1/boards/pi-3/withdraw", json={"good_too": True}).status_code == 200
    check()


def test_an_import_that_takes_the_place_of_a_failure_is_the_jobs_too(
    client: TestClient, db: Database
) -> None:
    job, task = new_job(db)
    passing = record(9, error=next(kind for kind in ErrorKind if kind.transient), message="x")
    SqlStore(db, Metrics()).save(job, [Trial(task, 0, passing, False)], 1.0)
    assert import_(client, record(9)).json()["imported"] == 1
    (shown,) = client.get(f"/api/v1/jobs/{job}/tasks").json()["items"]
    assert (shown["best_s"], shown["curve"]) == (9e-6, [[0, 9e-6]])
