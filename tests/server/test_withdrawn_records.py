"""Records that are imported, withdrawn or damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from alembic import command
from fastapi.testclient import TestClient
from server_samples import TARGET, record
from sqlalchemy import Engine, event, select, text
from test_boards import new_job
from test_records import URL, best, import_

from kernels import target as targets
from kernels.workload.base import Gemm
from server.boards.book import SqlBook
from server.boards.withdrawal import doubt, last_good_check, withdraw
from server.db.database import Database, alembic_config
from server.db.tables import RecordRow, TargetRow, TaskRow
from server.jobs.store import SqlStore
from server.metrics import Metrics
from server.records import repository
from tuner.log.record import Record
from tuner.spec import Trial
from worker.fleet.book import Check as HealthCheck
from worker.fleet.book import Listing
from worker.outcome import ErrorKind

WORKLOAD = Gemm(m=8, n=8, k=8)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
BOARD = Listing("pi-3", TARGET, "wall", 1)


@contextmanager
def listening(db: Database) -> Iterator[list[str]]:
    """The statements that are made meanwhile, by any connection."""
    said: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        said.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield said
    event.remove(Engine, "before_cursor_execute", note)


def store(db: Database, *records: Record) -> None:
    with db.write() as session:
        repository.add(session, records)


def test_what_was_measured_here_ranks_before_any_import(client: TestClient, db: Database) -> None:
    import_(client, record(1), record(2))
    assert (best(client).json()["config"]["point"], best(client).json()["imported"]) == (1, True)
    store(db, record(7))
    assert (best(client).json()["config"]["point"], best(client).json()["imported"]) == (7, False)
    store(db, replace(record(2), cost_s=3e-6))  # measured here: no import any more
    assert (best(client).json()["cost_s"], best(client).json()["imported"]) == (3e-6, False)
    assert import_(client, replace(record(2), cost_s=1e-6)).json() == {"imported": 0, "duplicates": 1}
    (view,) = client.get(f"/api/v1/workloads/{WORKLOAD.key}").json()["measured"]
    assert view["best_s"] == 3e-6


def test_imports_can_be_deleted_and_nothing_else(client: TestClient, db: Database) -> None:
    import_(client, record(1), record(2), record(3))
    store(db, record(7))
    ids = {each["config"]["point"]: each["id"] for each in client.get(URL).json()["items"]}
    refused = client.delete(f"{URL}/{ids[7]}")
    assert (refused.status_code, "withdraw" in refused.json()["detail"]) == (409, True)
    assert client.delete(f"{URL}/{ids[3]}").json() == {"records": 1}
    assert client.delete(f"{URL}/{ids[3]}").status_code == 404
    assert client.delete(f"{URL}/imported").json() == {"records": 2}
    assert [each["config"]["point"] for each in client.get(URL).json()["items"]] == [7]


@pytest.mark.parametrize(
    "change",
    [
        {"cost_s": 1e-30},
        {"verified_s": 5e-324},
        {"repeats_s": [1e-6, -1.0]},
        {"counters": {"cycles": -1}},
        {"config": []},
        {"config": None},
        {"config": "abc"},
        {"config": {"kernel": "sconv", "cls": [1]}},
        {"target": {**targets.to_json(TARGET), "name": 'evil"\r\nX: y'}},
        {"target": {**targets.to_json(TARGET), "triple": "x86_64-linux-gnu -mcpu=evil"}},
        {"target": {**targets.to_json(TARGET), "vector_bits": 0}},
    ],
    ids=str,
)
def test_what_no_machine_can_have_measured_is_refused(client: TestClient, change: dict[str, object]) -> None:
    response = client.post(URL, content=json.dumps({**record(1).to_json(), **change}))
    assert response.status_code == 422, response.text
    assert "line 1 of the log is damaged" in response.json()["detail"]
    assert client.get(URL).json()["items"] == []


def test_an_import_never_names_a_target_of_this_lab(client: TestClient, db: Database) -> None:
    import_(client, record(1, target=replace(TARGET, name="evil")))
    unknown = replace(TARGET, name="theirs", l2_bytes=12345)
    import_(client, record(2, target=unknown))
    with db.read() as session:
        assert set(session.execute(select(TargetRow.name)).scalars()) - {"host"} == {"x86-avx2", "theirs"}
    with db.write() as session:  # as when a board of that kind is enlisted
        repository.add_targets(session, [replace(unknown, name="ours")])
    import_(client, record(4, target=unknown))
    with db.read() as session:
        assert set(session.execute(select(TargetRow.name)).scalars()) - {"host"} == {"x86-avx2", "ours"}


def test_a_damaged_row_fails_no_list_and_can_be_deleted(client: TestClient, db: Database) -> None:
    store(db, *(record(n) for n in range(1, 6)))
    with db.write() as session:
        for row in session.execute(select(RecordRow).where(RecordRow.ranking_s < 2.5e-6)).scalars():
            row.document = {**row.document, "cost_s": -5.5e-6}
    pages, after, left_out = [], None, 0
    while True:
        page = client.get(URL, params={"limit": 1, **({"after": after} if after else {})}).json()
        pages += [each["config"]["point"] for each in page["items"]]
        left_out += page["left_out"]
        if (after := page["next"]) is None:
            break
    assert (pages, left_out) == ([3, 4, 5], 2)
    assert best(client).json()["config"]["point"] == 3
    for which in ("all", "best"):
        assert client.get("/api/v1/targets/x86-avx2/log", params={"select": which}).status_code == 200
    damaged = client.get(f"{URL}/damaged").json()["items"]
    assert [each["problem"] for each in damaged] == [
        "cost_s must be a positive number of seconds, got -5.5e-06"
    ] * 2
    for each in damaged:
        assert client.delete(f"{URL}/{each['id']}").json() == {"records": 1}
    assert client.get(f"{URL}/damaged").json()["items"] == []


def test_what_a_board_wrote_since_its_last_good_check_is_taken_back(db: Database) -> None:
    book = SqlBook(db)
    book.enlist([BOARD])
    job, task = new_job(db)
    store_ = SqlStore(db, Metrics())
    before, after = ("2020-01-01T00:00:00+00:00", "2100-01-01T00:00:00+00:00")
    kept = [record(5, board="pi-3", created=before), record(2, board="pi-4", created=after)]
    lies = [record(1, board="pi-3", created=after), record(3, board="pi-3", created=after)]
    store_.save(job, [Trial(task, number, each, False) for number, each in enumerate([*kept, *lies])], 1.0)
    book.checked("pi-3", HealthCheck(1e-3, artifact="a"))
    book.checked("pi-3", HealthCheck(None, "it lied"))
    with db.write() as session:
        since = last_good_check(session, "pi-3")
        assert datetime(2026, 1, 1, tzinfo=UTC) < since < datetime.now(UTC)
        assert withdraw(session, "pi-3", since) == 2
    with db.read() as session:
        found = dict(repository.of_job(session, job)).values()
        assert {each.config["point"]: each.error for each in found} == {
            5: None,
            2: None,
            1: ErrorKind.WITHDRAWN,
            3: ErrorKind.WITHDRAWN,
        }
        best_id = session.get_one(TaskRow, task).best_id
        assert best_id is not None
        assert session.get_one(RecordRow, best_id).ranking_s == 2e-6
        # Another measurement takes the place of one that was withdrawn.
    store(db, record(1))
    with db.read() as session:
        assert {
            r.config["point"] for r in repository.known(session, WORKLOAD.key, TARGET.key, "wall", 1)
        } == {1, 2, 5}


def test_what_a_good_check_vouches_for_is_withdrawn_only_when_that_is_said(
    client: TestClient, db: Database
) -> None:
    book, url = SqlBook(db), "/api/v1/boards/pi-3/withdraw"
    book.enlist([BOARD])
    book.checked("pi-3", HealthCheck(1e-3, artifact="a"))
    old, new = ("2020-01-01T00:00:00+00:00", "2100-01-01T00:00:00+00:00")
    store(db, record(5, board="pi-3", created=old), record(2, board="pi-3", created=new))
    assert client.post(url, json={"since": 0}).status_code == 422  # 1970 is hardly meant
    for since in ("2019-01-01T00:00:00", "2019-01-01T00:00:00+02:00"):
        refused = client.post(url, json={"since": since})
        assert (refused.status_code, "good_too" in refused.json()["detail"]) == (409, True)
    assert best(client).json()["config"]["point"] == 2
    assert client.post(url, json={"since": "2099-01-01T00:00:00"}).json()["records"] == 1
    assert best(client).json()["config"]["point"] == 5
    assert client.post(url, json={"since": old, "good_too": True}).json()["records"] == 1
    assert best(client).status_code == 404
    assert client.post("/api/v1/boards/nobody/withdraw", json={"since": old}).status_code == 404


def test_false_failures_go_too_and_imports_of_that_name_stay(client: TestClient, db: Database) -> None:
    """A board that called a config wrong condemned it on all boards: nobody measured it again."""
    SqlBook(db).enlist([BOARD])
    now = "2100-01-01T00:00:00+00:00"
    kinds = [ErrorKind.CRASH, ErrorKind.RUN_TIMEOUT, ErrorKind.WRONG_RESULT, ErrorKind.POISON]
    claims = [
        replace(record(n), cost_s=None, error=kind, message="so it said", board="pi-3", created=now)
        for n, kind in enumerate(kinds, start=1)
    ]
    mine = replace(record(6), cost_s=None, error=ErrorKind.CRASH, board="pi-4", created=now)
    store(db, *claims, mine)
    import_(client, replace(record(7), board="pi-3"))
    url = "/api/v1/boards/pi-3/withdraw"
    assert client.post(url, json={"good_too": True}).json()["records"] == len(kinds)
    assert client.post(url, json={"good_too": True}).json()["records"] == 0
    with db.read() as session:
        usable = repository.known(session, WORKLOAD.key, TARGET.key, "wall", 1)
    assert {each.config["point"]: each.error for each in usable} == {6: ErrorKind.CRASH, 7: None}
    store(db, *(replace(record(n), board="pi-4") for n in range(1, 5)))
    assert best(client).json()["config"]["point"] == 1


def test_places_beside_a_liar_go_with_it(client: TestClient, db: Database) -> None:
    """Places inside a model are the costs of those compared: an honest record had got a liar's."""
    SqlBook(db).enlist([BOARD])
    lie = replace(record(1), cost_s=1e-9, board="pi-3")
    honest = replace(record(5), board="pi-4", placed_s=1e-9, in_place_s=4e-6)
    store(db, lie, honest, replace(record(2), board="pi-4"), replace(record(7), board="pi-3"))
    with db.write() as session:  # such as databases from before have
        damage = {"damage": "not json" if db.sqlite else "[7]"}
        session.execute(text("update records set document = :damage where ranking_s > 6e-6"), damage)
    with db.engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0019")
        command.upgrade(alembic_config(connection), "head")
    with db.write() as session:
        session.execute(text("update records set board = 'pi-3' where ranking_s > 6e-6"))
    assert best(client).json()["config"]["point"] == 1
    with listening(db) as said:
        assert client.post("/api/v1/boards/pi-3/withdraw", json={"good_too": True}).json()["records"] == 1
    # Nothing is looked for inside documents: at a million records nobody else could write meanwhile.
    assert not [each for each in said if each.startswith("SELECT") and ("json_" in each or "->" in each)]
    assert (best(client).json()["config"]["point"], best(client).json()["placed_s"]) == (2, None)
    fastest = client.get(URL, params={"sort": "highest_rate"}).json()["items"]
    assert [each["config"]["point"] for each in fastest] == [2, 5]


@pytest.mark.parametrize("other_target", [False, True])
def test_places_beside_a_board_that_was_caught_go_too(
    client: TestClient, db: Database, other_target: bool
) -> None:
    """Also where the board has another target by now, but not those of imports, which are another lab's."""
    book = SqlBook(db)
    book.enlist([BOARD])
    theirs = replace(record(3), placed_s=2e-6, in_place_s=2e-6)
    import_(client, theirs)
    honest = replace(record(5), board="pi-4", placed_s=1e-9, in_place_s=4e-6)
    store(db, replace(record(1), cost_s=1e-9, board="pi-3"), honest, replace(record(4), board="pi-4"))
    if other_target:
        book.enlist([replace(BOARD, target=replace(TARGET, l2_bytes=12345))])
    with db.write() as session:
        doubt(session, "pi-3")
    assert (best(client).json()["config"]["point"], best(client).json()["board"]) == (4, "pi-4")
    with db.read() as session:
        rows = session.scalars(select(RecordRow)).all()
    assert [row.document["config"]["point"] for row in rows if row.placed] == [3]


def test_a_board_that_was_caught_has_its_records_marked(client: TestClient, db: Database) -> None:
    SqlBook(db).enlist([BOARD])
    crash = replace(record(3), cost_s=None, error=ErrorKind.CRASH, board="pi-3")
    store(db, replace(record(1), board="pi-3"), replace(record(4), board="pi-4"), crash)
    with db.write() as session:
        doubt(session, "pi-3")
    assert best(client).json()["config"]["point"] == 4
    with db.read() as session:
        found = {
            each.config["point"]: each.disturbed
            for each in repository.known(session, WORKLOAD.key, TARGET.key, "wall", 1)
        }
    assert found == {1: True, 4: False}
