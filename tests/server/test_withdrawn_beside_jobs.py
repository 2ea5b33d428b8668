"""A board's word is taken back while jobs run that have it in memory."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from server_samples import TARGET, record
from sqlalchemy import select
from test_boards import new_job
from test_withdrawn_records import BEGINNING, BOARD, WORKLOAD, store

from server.boards.book import SqlBook
from server.boards.withdrawal import doubt, withdraw
from server.db.database import Database
from server.db.tables import PeakRow, RecordRow
from server.jobs.store import SqlStore
from server.metrics import Metrics
from tuner.backend.check import Check, Delivery
from tuner.job.store import Ranking
from tuner.spec import Trial
from worker.fleet.book import LIED, RETURNED, Purpose, Usage
from worker.fleet.states import Health, Standing
from worker.outcome import ErrorKind


def test_what_was_withdrawn_meanwhile_is_not_measured_into_being_again(db: Database) -> None:
    SqlBook(db).enlist([BOARD])
    known = replace(record(1), board="pi-3")
    again = replace(known, verified_s=2e-6)
    store(db, known)
    with db.write() as session:
        doubt(session, "pi-3")
    assert not SqlStore(db, Metrics()).remeasured(again, known)
    with db.write() as session:
        assert withdraw(session, "pi-3", BEGINNING) == 1
    assert not SqlStore(db, Metrics()).remeasured(again, known)
    with db.read() as session:
        assert session.scalars(select(RecordRow)).one().error == ErrorKind.WITHDRAWN
    honest = replace(record(1), cost_s=8e-6, board="pi-4")
    store(db, honest)  # of another job, which the first does not know
    assert not SqlStore(db, Metrics()).remeasured(again, known)
    assert SqlStore(db, Metrics()).remeasured(replace(honest, verified_s=7e-6), honest)
    with db.write() as session:
        session.delete(session.scalars(select(RecordRow)).one())
    assert not SqlStore(db, Metrics()).remeasured(again, known)


def test_what_was_taken_back_since_it_was_read_is_not_reused(db: Database) -> None:
    """A job reads what is known, and counts it as its trials later: an operator may be quicker."""
    SqlBook(db).enlist([BOARD])
    mine, lies = replace(record(5), board="pi-4"), [replace(record(n), board="pi-3") for n in (1, 2, 3)]
    store(db, mine, *lies)
    job, task = new_job(db)
    store_ = SqlStore(db, Metrics())
    found = store_.known(WORKLOAD, TARGET, "wall", 1)
    with db.write() as session:
        session.delete(session.scalars(select(RecordRow).where(RecordRow.ranking_s == 3e-6)).one())
        doubt(session, "pi-3")
    reused = [Trial(task, number, each, True) for number, each in enumerate(found)]
    assert [trial.record.board for trial in store_.save(job, reused, 1.0)] == ["pi-4"]
    with db.write() as session:
        assert withdraw(session, "pi-3", BEGINNING) == 2
    assert [trial.record.board for trial in store_.save(job, reused, 1.0)] == ["pi-4"]
    with db.read() as session:
        rows = session.scalars(select(RecordRow)).all()
        assert sorted((row.ranking_s is None, row.document["board"]) for row in rows) == [
            (False, "pi-4"),
            (True, "pi-3"),
            (True, "pi-3"),
        ]
    assert [trial.record.board for trial in store_.trials(job)] == ["pi-4"]


def test_a_job_hears_what_of_its_trials_is_not_as_it_knows_it(db: Database) -> None:
    SqlBook(db).enlist([BOARD])
    job, task = new_job(db)
    store_ = SqlStore(db, Metrics())
    said = [replace(record(1), board="pi-3"), replace(record(2), board="pi-4")]
    store_.save(job, [Trial(task, number, each, False) for number, each in enumerate(said)], 1.0)
    known: dict[tuple[int, str], Ranking] = {
        (task, each.config.key): (None, False, each.board, each.cost_s) for each in said
    }
    assert store_.changed(job, known) == []
    with db.write() as session:
        doubt(session, "pi-3")
    (trial,) = store_.changed(job, known)
    assert (trial.record.board, trial.record.disturbed) == ("pi-3", True)
    with db.write() as session:
        withdraw(session, "pi-3", BEGINNING)
    (trial,) = store_.changed(job, known)
    assert (trial.record.board, trial.record.error) == ("pi-3", ErrorKind.WITHDRAWN)
    store(db, replace(record(1), cost_s=8e-6, board="pi-4"))
    (trial,) = store_.changed(job, known)
    assert (trial.record.board, trial.record.cost_s) == ("pi-4", 8e-6)


def test_jobs_and_people_hear_that_a_word_was_taken_back(client: TestClient, db: Database) -> None:
    book, store_ = SqlBook(db), SqlStore(db, Metrics())
    book.enlist([BOARD])
    store(db, replace(record(1), board="pi-3"))
    assert store_.taken_back(0.0) == 0
    book.change("pi-3", lambda standing: standing.park("it smells"), "park")
    assert store_.taken_back(0.0) == 0
    book.change("pi-3", lambda standing: standing.lied("it lied"), LIED)
    assert store_.taken_back(0.0) == 1
    client.post("/api/v1/boards/pi-3/withdraw", json={"good_too": True})
    assert store_.taken_back(0.0) == 2
    assert store_.taken_back(time.time() + 60) == 0
    entry = client.get("/api/v1/boards/pi-3/history").json()["items"][0]
    assert (entry["kind"], "1 record from 1970-01-01" in entry["detail"]["reason"]) == ("withdraw", True)


@pytest.mark.parametrize("caught", [False, True])
@pytest.mark.parametrize("released", [False, True])
def test_what_a_board_said_before_it_was_caught_is_not_stored_after_that(
    db: Database, caught: bool, released: bool
) -> None:
    """Outcomes wait for their job to take them in, and its lease ends well after the lie."""
    book, (job, task) = SqlBook(db), new_job(db)
    book.enlist([BOARD, replace(BOARD, id="pi-4")])
    store_, tokens = SqlStore(db, Metrics()), {}
    for each in ("pi-3", "pi-4"):
        book.change(each, Standing.check_passed, "good_check")
        lease = book.acquire(each, "me", Purpose.TRIALS, job)
        assert lease is not None
        tokens[each] = lease.token
        if released:
            book.release(lease, Usage())
    if caught:
        book.change("pi-3", lambda standing: standing.lied("it lied"), LIED)
        book.change("pi-3", Standing.put_back, RETURNED)
    else:
        with db.write() as session:
            withdraw(session, "pi-3", BEGINNING)
    late = [
        Trial(task, at, record(at + 1, board=each), False, token)
        for at, (each, token) in enumerate(tokens.items())
    ]
    assert [trial.record.board for trial in store_.save(job, late, 1.0)] == ["pi-4"]
    assert not store_.delivered(job, Delivery(Check(1e-4), 5e-3, 0.02, 1e-3), tokens["pi-3"])
    book.change("pi-3", Standing.check_passed, "good_check")
    if released or caught:
        book.revoke("pi-3", "a new lease")
        lease = book.acquire("pi-3", "me", Purpose.TRIALS, job)
        assert lease is not None
        again = Trial(task, 0, record(1, board="pi-3"), False, lease.token)
        assert store_.save(job, [again], 1.0) == [again]


def test_a_board_that_was_parked_before_its_lie_came_has_its_records_marked(db: Database) -> None:
    book = SqlBook(db)
    book.enlist([BOARD])
    store(db, replace(record(1), board="pi-3"))
    book.change("pi-3", lambda standing: standing.park("it smells"), "park")
    book.change("pi-3", lambda standing: standing.lied("it lied"), LIED)
    assert book.entries()["pi-3"].standing == Standing(Health.MAINTENANCE, "it smells")
    with db.read() as session:
        assert session.scalars(select(RecordRow)).one().disturbed


def test_who_stores_what_boards_say_and_who_takes_it_back_wait_for_each_other(db: Database) -> None:
    """PostgreSQL has several writers at once: a job that reuses a time would count it as it was."""
    book, (job, task) = SqlBook(db), new_job(db)
    book.enlist([BOARD])
    lie = replace(record(1), board="pi-3")
    store(db, lie)
    with ThreadPoolExecutor(1) as threads:
        with db.write() as session:
            doubt(session, "pi-3")
            saved = threads.submit(SqlStore(db, Metrics()).save, job, [Trial(task, 0, lie, True)], 1.0)
            with pytest.raises(TimeoutError):
                saved.result(0.3)
        assert saved.result(30) == []


@pytest.mark.parametrize("said_by", ["pi-3", "pi-4"])
def test_a_board_that_is_faster_than_it_said_it_can_be_is_parked(db: Database, said_by: str) -> None:
    """Its own word counts against it, and no other's: who says a low peak would park honest boards."""
    book = SqlBook(db)
    book.enlist([BOARD, replace(BOARD, id="pi-4")])
    book.change("pi-3", Standing.check_passed, "good_check")
    peak = PeakRow(target_key=TARGET.key, threads=1, clock="wall", gflops=0.3, board=said_by)
    with db.write() as session:
        session.add(peak)
    store(db, record(7, board="pi-3"))
    job, task = new_job(db)
    lease = book.acquire("pi-3", "me", Purpose.TRIALS, job)
    assert lease is not None
    trial = Trial(task, 0, record(1, board="pi-3"), False, lease.token)  # 1 GFLOP/s
    parked = said_by == "pi-3"
    assert SqlStore(db, Metrics()).save(job, [trial], 1.0) == ([] if parked else [trial])
    standing = book.entries()["pi-3"].standing
    assert standing.lying == parked
    assert ("3.41 times that cannot be" in standing.reason) == parked
    with db.read() as session:
        rows = session.scalars(select(RecordRow)).all()
        assert [row.disturbed for row in rows] == ([True] if parked else [False, False])
        assert (session.scalars(select(PeakRow)).all() == []) == parked


@pytest.mark.parametrize("caught", [False, True])
def test_what_a_built_model_takes_goes_with_its_board(client: TestClient, db: Database, caught: bool) -> None:
    book, (job, _) = SqlBook(db), new_job(db)
    book.enlist([BOARD, replace(BOARD, id="pi-4")])
    for each in ("pi-3", "pi-4"):
        book.change(each, Standing.check_passed, "good_check")
    store_, delivery = SqlStore(db, Metrics()), Delivery(Check(1e-4), 5e-3, 0.02, 1e-3)

    def built() -> object:
        return client.get(f"/api/v1/jobs/{job}").json()["built"]

    lease = book.acquire("pi-3", "me", Purpose.TRIALS, job)
    assert lease is not None
    assert store_.delivered(job, delivery, lease.token)
    assert built()
    with db.write() as session:
        doubt(session, "pi-4")
    assert built()
    old, _ = new_job(db)  # from before it was kept who said so
    assert store_.delivered(old, delivery)
    if caught:
        book.change("pi-3", lambda standing: standing.lied("it lied"), LIED)
    else:
        client.post("/api/v1/boards/pi-3/withdraw", json={"good_too": True})
    assert built() is None
    assert client.get(f"/api/v1/jobs/{old}").json()["built"] is None
    book.revoke("pi-3", "it lied")
    assert not store_.delivered(job, delivery, lease.token)
    assert built() is None
