"""Lists of many records: an index serves each, and they say what reading every record would say."""

import random
import re
from dataclasses import replace
from itertools import groupby

import pytest
from fastapi.testclient import TestClient
from server_samples import OTHER, TARGET, record
from sqlalchemy import event

from bench import many_records
from kernels.layout import PLAIN, Layouts
from kernels.space import Config
from kernels.workload.base import Gemm
from server.db.database import Database
from server.records import repository, search
from tuner.log.record import Record
from worker.outcome import ErrorKind


def some(seed: int, count: int) -> list[Record]:
    """Records of all kinds, as they fall."""
    rng = random.Random(seed)
    found = []
    for number in range(1, count):
        failed = rng.random() < 0.2
        each = record(
            number,
            Gemm(m=8, n=8, k=rng.randint(1, 5)),
            rng.choice((TARGET, OTHER)),
            clock=rng.choice(("wall", "simulated:a", "simulated:b")),
            threads=rng.choice((1, 2, 4)),
            imported=rng.random() < 0.5,
            **({"error": ErrorKind.CRASH} if failed else {"cost_s": rng.randint(1, 9) * 1e-6}),
        )
        found.append(
            replace(each, config=Config.of("test", rng.choice((PLAIN, Layouts.read("nhwc"))), point=number))
        )
    return found


def group(each: Record) -> tuple[object, ...]:
    return each.workload.key, str(each.layouts), each.target.key, each.clock, each.threads


@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_each_group_are_those_that_sorting_all_would_give(db: Database, seed: int) -> None:
    records = some(seed, 400)
    with db.write() as session:
        repository.add(session, records)
    ran = sorted((each for each in records if each.ranking_s is not None), key=group)
    bests = {key: min(each.rank for each in of_one) for key, of_one in groupby(ran, group)}
    keys = [TARGET.key, OTHER.key]
    log = list(repository.log(db, "best", 1, target_keys=keys))
    assert {group(each): each.rank for each in log} == bests
    assert [group(each)[:2] for each in log] == sorted(key[:2] for key in bests)
    top = list(repository.log(db, "top", 3, target_keys=keys[:1]))
    assert len(top) == sum(min(3, sum(group(e) == key for e in ran)) for key in bests if key[2] == TARGET.key)
    with db.read() as session:
        listed, _ = repository.bests(session, keys, 2, repository.Numerics.RELAXED, None, None, limit=100)
    assert {group(each): each.rank for _, each in listed} == {k: v for k, v in bests.items() if k[4] == 2}


@pytest.mark.parametrize("rare", [0, 2000])
def test_facts_leave_the_same_records_whether_they_are_rare_or_common(
    client: TestClient, db: Database, monkeypatch: pytest.MonkeyPatch, rare: int
) -> None:
    monkeypatch.setattr(search, "_RARE", rare)
    records = some(5, 200)
    with db.write() as session:
        repository.add(session, records)
    for asked in (
        {"clock": "simulated:a", "threads": 2},
        {"threads": 4, "kernel": "test", "error": "none"},
        {"clock": "simulated:c"},
        {"threads": 1, "error": "any"},
        {"kernel": "none"},
    ):
        for sort in ("newest", "fastest"):
            page = client.get("/api/v1/records", params={**asked, "sort": sort, "limit": 200}).json()["items"]
            kept = {
                each.config.key
                for each in records
                if all(
                    getattr(each, name) == asked.get(name, getattr(each, name))
                    for name in ("clock", "threads")
                )
                and each.config.kernel == asked.get("kernel", each.config.kernel)
                and {"none": each.error is None, "any": each.error is not None}.get(
                    str(asked.get("error")), True
                )
                and (sort == "newest" or each.ranking_s is not None)
            }
            assert {Config.from_json(item["config"]).key for item in page} == kept, (asked, sort)


# PostgreSQL reads small tables whole: bench.many_records shows that it uses the indexes of large ones.
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_an_index_serves_each_list(client: TestClient, database_url: str) -> None:
    db = Database(database_url)
    with db.write() as session:
        repository.add(session, some(7, 400))
    workload = Gemm(m=8, n=8, k=3).key
    job = many_records.add_job(db, TARGET.key, 300)
    for name, path in many_records.questions(workload, TARGET.name, job).items():
        assert client.get(path).status_code == 200, path
        for plan in plans(client, path):
            whole = re.search(r"SCAN (records|record_\d|RecordRow)\b(?! USING)", plan)
            assert not whole or "ORDER BY records.id" in plan or "WHERE 0 = 1" in plan, (name, plan)


def plans(client: TestClient, path: str) -> list[str]:
    """What SQLite does for each statement of a question."""
    engine = client.app.state.services.db.engine  # type: ignore[attr-defined]
    seen = []

    def note(_: object, __: object, statement: str, parameters: object, *___: object) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            seen.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    client.get(path)
    event.remove(engine, "before_cursor_execute", note)
    with engine.connect() as connection:
        return [
            statement
            + "\n"
            + "\n".join(
                str(row[-1])
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            )
            for statement, parameters in seen
        ]
