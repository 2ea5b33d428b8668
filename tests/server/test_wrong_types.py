"""Every typed column holds what it should not: every answer is still given, and one command mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from server_samples import conv_model, record
from sqlalchemy import Table, text
from test_damaged_columns import job_of, paths
from test_records import import_

from kernels.workload.base import Gemm, to_json
from server.db.columns import Real, Sound, Utc, Whole, Word
from server.db.database import Database
from server.db.tables import Base
from server.mending import mend
from tuner.backend.check import Check, Delivery

WRONG = ("'abc'", "x'00ff80'", "-1e300")
NO_TEXT = "cast(x'ff' as text)"


def columns(table: Table) -> list[Any]:
    """Those that can be changed and have a type of ours."""
    return [each for each in table.columns if isinstance(each.type, Sound) and not each.primary_key]


@contextmanager
def unchecked(db: Database) -> Iterator[Any]:
    """A connection of which no references are checked."""
    connection = db.engine.raw_connection()
    connection.execute("pragma foreign_keys = off")
    yield connection
    connection.commit()
    connection.execute("pragma foreign_keys = on")
    connection.close()


def damage(db: Database, table: Table, wrong: str, *, references: bool = True) -> None:
    """Write it into all of the first row, as a person with SQLite's own program would."""
    names = [each.name for each in columns(table) if references or not each.foreign_keys]
    values = ", ".join(f"{name} = {wrong}" for name in names)
    with unchecked(db) as connection:
        connection.execute(f"update {table} set {values} where rowid = (select min(rowid) from {table})")


def everything(client: TestClient, engine: FakeEngine) -> list[str]:
    """What there is to GET of two jobs that ended."""
    check = Check(1e-4, {"y": 1e-6}, {"y": 1e-4}, "onnxruntime", where="board host")
    engine.delivery = Delivery(check, seconds=1e-3)
    model = client.post("/api/v1/models", content=conv_model()).json()["hash"]
    workload = Gemm(m=8, n=8, k=8)
    jobs = [job_of(client, model=model, labels=["x"]), job_of(client, workload=to_json(workload))]
    assert import_(client, record(1, workload)).status_code == 200
    names = {"model_hash": model, "board_id": "host", "name": "host", "target": "host"}
    asked = paths(client, job_id=str(jobs[0]), key=workload.key, workload=workload.key, **names)
    asked += [f"/api/v1/records?sort={by}" for by in ("newest", "fastest", "highest_rate")]
    asked += ["/metrics", "/api/v1/jobs?sort=finished", "/api/v1/jobs?search=x", "/api/v1/boards/report"]
    return asked


# PostgreSQL takes nothing in a column but what is of its type.
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_wrong_type_takes_an_answer_with_it(client: TestClient, db: Database, engine: FakeEngine) -> None:
    asked = everything(client, engine)
    client._transport.raise_server_exceptions = False
    tables = [table for table in Base.metadata.sorted_tables if columns(table)]
    refused = []
    for at, wrong in enumerate(WRONG):
        refused += failures(client, db, tables[at :: len(WRONG)], wrong, asked)
    assert refused == [], "\n".join(map(str, refused))
    for table in tables:
        damage(db, table, NO_TEXT, references=False)
    assert [path for path in asked if client.get(path).status_code not in (200, 404)] == []
    done = mend(db)
    assert {"jobs.elapsed_s", "boards.faults", "records"} <= done.keys()
    assert mend(db) == {}
    assert [path for path in asked if client.get(path).status_code != 200] == []


def failures(
    client: TestClient, db: Database, tables: list[Table], wrong: str, asked: list[str]
) -> list[object]:
    """What is not answered while a row of each table holds something wrong."""
    kept = {}
    with db.read() as session:
        for table in tables:
            row = session.execute(text(f"select rowid as row_, * from {table} limit 1")).mappings().first()
            kept[table] = dict(row or {})
    for table in tables:
        damage(db, table, wrong)
    answers = {path: client.get(path) for path in asked}
    with unchecked(db) as connection:
        for table, had in kept.items():
            at = had.pop("row_", 0)
            values = ", ".join(f"{name} = ?" for name in had)
            if had:
                connection.execute(f"update {table} set {values} where rowid = ?", [*had.values(), at])
    return [
        (wrong, path, answer.status_code, answer.text[:300])
        for path, answer in answers.items()
        if answer.status_code not in (200, 404)
    ]


WRONG_OF = {
    Utc: ("infinity", "20000-01-01"),
    Real: ("NaN", "-Infinity"),
    Word: ("zzz", "x"),
    Whole: (-7, 2**31 - 1),
}


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_what_no_column_means_takes_no_answer_with_it(
    client: TestClient, db: Database, engine: FakeEngine
) -> None:
    asked = everything(client, engine)
    client._transport.raise_server_exceptions = False
    tables = [table for table in Base.metadata.sorted_tables if columns(table)]
    for at in (0, 1):
        for table in tables[at::2]:
            named = {
                each.name: WRONG_OF[type(each.type)][at]
                for each in columns(table)
                if type(each.type) in WRONG_OF and not each.foreign_keys
                if not isinstance(each.type, Word) or each.type.among
            }
            if named:
                values = ", ".join(f"{name} = :{name}" for name in named)
                with db.write() as session:
                    session.execute(text(f"update {table} set {values}"), named)
        answers = {path: client.get(path) for path in asked}
        refused = [
            (path, answer.text[:300])
            for path, answer in answers.items()
            if answer.status_code not in (200, 404)
        ]
        assert refused == [], "\n".join(map(str, refused))
    mend(db)
    assert mend(db) == {}
    assert [path for path in asked if client.get(path).status_code != 200] == []


@pytest.mark.parametrize("wrong", ["NaN", "1e400", "1" * 400, '"x"', "null"])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_number_in_a_document_takes_an_answer_with_it(
    client: TestClient, db: Database, wrong: str
) -> None:
    workload = Gemm(m=8, n=8, k=8)
    assert import_(client, record(1, workload)).status_code == 200
    client._transport.raise_server_exceptions = False
    number = re.compile(r"(?<=[:\[ ,])-?\d[\d.e+-]*(?=[,\]}])")
    asked = ["/records", "/configs?target=host", "/configs/recent", f"/workloads/{workload.key}"]
    asked += [f"/workloads/{workload.key}/trials?target=host", "/targets/host/log?select=all", "/workloads"]
    mine = {"targets": "where key = (select target_key from records)"}
    for table in ("records", "workloads", "targets"):
        where = mine.get(table, "")
        with db.write() as session:
            (kept,) = session.execute(text(f"select document from {table} {where}")).scalars()
            new = {"new": number.sub(wrong, kept)}
            assert new["new"] != kept
            session.execute(text(f"update {table} set document = :new {where}"), new)
        answers = [client.get(f"/api/v1{path}") for path in asked]
        assert [each.text for each in answers if each.status_code not in (200, 404)] == []
        with db.write() as session:
            session.execute(text(f"update {table} set document = :old {where}"), {"old": kept})
