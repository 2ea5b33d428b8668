"""The schema and the sessions, on both databases."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.pq import Conninfo
from sqlalchemy import inspect, select, text
from sqlalchemy.exc import IntegrityError

from kernels.layout import Layouts
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, Gemm
from server.db.database import Database, alembic_config
from server.db.tables import Base, JobRow, RecordRow, TargetRow, TaskRow
from server.records import repository
from tuner.log.record import Record


def test_migrations_make_exactly_the_tables(db: Database) -> None:
    with db.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


@pytest.mark.parametrize("password", ["plain", "p@ss", "p%41", "a:b/c?d#e", "with space"])
def test_the_composed_server_takes_any_password(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the libraries make of it: nothing connects."""
    compose = (Path(__file__).resolve().parents[2] / "docker-compose.yml").read_text()
    services = yaml.safe_load(re.sub(r"\$\{POSTGRES_PASSWORD[^}]*\}", password, compose))["services"]
    settings = services["coordinator"]["environment"]
    engine = Database(settings["TILEFLEET_DATABASE_URL"]).engine
    _, given = engine.dialect.create_connect_args(engine.url)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    if "PGPASSWORD" in settings:
        monkeypatch.setenv("PGPASSWORD", settings["PGPASSWORD"])
    usual = {each.keyword.decode(): each.val for each in Conninfo.get_defaults()}
    found = given.get("password", (usual["password"] or b"").decode())
    assert (given["host"], given["user"], found) == ("postgres", "tilefleet", password)
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"] == password


def test_downgrade_leaves_nothing(db: Database) -> None:
    with db.engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
    assert inspect(db.engine).get_table_names() == ["alembic_version"]


def test_several_processes_may_upgrade_at_once(database_url: str) -> None:
    code = "import sys; from server.db.database import Database; Database(sys.argv[1]).upgrade()"
    command_line = [sys.executable, "-c", code, database_url]
    processes = [subprocess.Popen(command_line, stderr=subprocess.PIPE) for _ in range(3)]
    errors = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    database = Database(database_url)
    with database.engine.begin() as connection:
        newest = ScriptDirectory.from_config(alembic_config(connection)).get_current_head()
    with database.read() as session:
        assert session.execute(text("select version_num from alembic_version")).scalars().all() == [newest]
    database.close()


def test_what_the_first_schema_held_stays(db: Database) -> None:
    """A job of 0001, with a task that refers to it, gets the defaults of what is new."""
    with db.engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0001")
        for statement in (
            "insert into targets values ('t', 'host', '{}')",
            "insert into workloads values ('w', 'gemm', '{}', 1)",
            "insert into peaks values ('t', 1, 90.0)",
            "insert into jobs (id, target_key, threads, clock, strategy, seed, state, message, created,"
            " elapsed_s) values (7, 't', 1, 'wall', 'random', 0, 'done', '', '2026-01-01', 1.5)",
            "insert into tasks (job_id, workload_key, weight, state, trials, failed, reused, errors,"
            " messages) values (7, 'w', 1, 'done', 0, 0, 0, '{}', '{}')",
        ):
            connection.exec_driver_sql(statement)
    db.upgrade()
    with db.read() as session:
        job = session.get_one(JobRow, 7)
        assert (job.priority, job.tags, job.elapsed_s) == (0, [], 1.5)
        assert job.numerics == "exact-integers"  # nobody had asked for other integers
        assert session.query(TaskRow).one().job_id == 7


def test_old_records_are_told_exact_from_relaxed(db: Database) -> None:
    conv = Conv2d(1, 8, 28, 28, 8, 3, 3)
    strided = replace(conv, stride=(2, 2))
    cases = [(conv, "winograd", {"m": m}) for m in (2, 4)] + [(strided, "winograd", {"m": m}) for m in (3, 4)]
    cases += [(conv, "sconv", {"pack": 0}), (conv, "winograd", {}), (Gemm(8, 8, 8), "someone_elses", {})]
    records = [
        Record(workload, CATALOGUE["x86-avx2"], Config.of(kernel, **knobs), 1, cost_s=1.0)
        for workload, kernel, knobs in cases
    ]
    exact = select(RecordRow.workload_key, RecordRow.config_key, RecordRow.exact).order_by(RecordRow.id)
    with db.write() as session:
        repository.add(session, records)
    with db.read() as session:
        stored = session.execute(exact).all()
    found = {(workload, config): each for workload, config, each in stored}
    assert [found[record.workload.key, record.config.key] for record in records] == [
        *(False, False, False, False),  # Winograd, which older versions called exact where m is small
        True,
        False,
        False,
    ]
    with db.engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0002")
    db.upgrade()
    with db.read() as session:
        assert session.execute(exact).all() == stored


def test_old_records_get_their_layouts(db: Database) -> None:
    conv = Conv2d(1, 8, 28, 28, 8, 3, 3)
    words = ["nchw", "nchw8c", "nchw8c>nchw", "nhwc>nchw"]
    configs = [Config.of("fconv", Layouts.read(word)) for word in words]
    records = [Record(conv, CATALOGUE["x86-avx2"], config, 1, cost_s=1.0) for config in configs]
    layouts = select(RecordRow.layouts).order_by(RecordRow.id)
    with db.write() as session:
        repository.add(session, records)
    with db.engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0003")
    db.upgrade()
    with db.read() as session:
        found = session.execute(layouts).scalars().all()
    assert found == ["nchw", "nchw8c", "nchw8c>nchw", "nhwc>nchw"] == [str(each.layouts) for each in records]


def test_foreign_keys_hold(db: Database) -> None:
    with pytest.raises(IntegrityError), db.write() as session:
        session.add(TaskRow(job_id=1, workload_key="none", weight=1))


def test_a_failed_write_leaves_nothing(db: Database) -> None:
    def fail() -> None:
        with db.write() as session:
            session.add(TargetRow(key="k", name="n", document={}))
            session.flush()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with db.read() as session:
        assert session.get(TargetRow, "k") is None


def test_writers_of_two_processes_wait_for_each_other(database_url: str) -> None:
    """Each of the two increments 50 times what it read: none is lost, none fails for a busy file."""
    first, second = Database(database_url), Database(database_url)
    first.upgrade()
    with first.write() as session:
        session.add(TargetRow(key="k", name="0", document={}))
    errors: list[Exception] = []

    def count(database: Database) -> None:
        try:
            for _ in range(50):
                with database.write() as session:
                    row = session.get_one(TargetRow, "k", with_for_update=True)
                    row.name = str(int(row.name) + 1)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=count, args=(database,)) for database in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with first.read() as session:
        assert (errors, session.get_one(TargetRow, "k").name) == ([], "100")
    first.close()
    second.close()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_postgresql_compiles_no_query(db: Database) -> None:
    for _ in range(2):
        with db.read() as session:
            assert session.execute(text("show jit")).scalar_one() == "off"
            session.rollback()
