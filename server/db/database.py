"""Engine, sessions and schema upgrade, the same for SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from server.db.documents import decoded
from server.db.restored import foreign_log
from server.db.tables import Base

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
_UPGRADE_LOCK = 0x7111EF1EE7
_RESTORE = "restore the backup (docs/operations.md)"
_NOT_AWAY = ("no such", "already exists", "duplicate column")
"""SQLite's words, in errors that it calls operational, for what others call programming errors."""


class DatabaseError(RuntimeError):
    """A database that must not be used; the message says why, and what to do."""


class Database:
    """Short sessions: ``with db.read() as session`` and ``with db.write() as session``.

    SQLite has one writer at a time. A write takes the file's lock at its start (``BEGIN IMMEDIATE``), so it
    never fails half-way for want of it; threads of this process queue at a lock of ours, which is fair
    where SQLite's busy timeout is not.
    """

    def __init__(self, url: str) -> None:
        self.url = make_url(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        if self.sqlite and self.url.database:
            Path(self.url.database).parent.mkdir(parents=True, exist_ok=True)
        # As many connections as the API has threads: with fewer, requests wait for each other.
        self.engine = create_engine(
            self.url,
            pool_pre_ping=not self.sqlite,
            pool_size=10,
            max_overflow=30,
            json_deserializer=decoded,
        )
        if self.sqlite:
            event.listen(self.engine, "connect", _configure_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        else:
            event.listen(self.engine, "connect", _configure_postgresql)
        self._writing = self.engine.execution_options(writes=True)
        self._writer = threading.Lock()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session for reading; what it changes is lost."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction: committed at the end, rolled back when the block raises."""
        if not self.sqlite:
            with Session(self._writing, expire_on_commit=False) as session, session.begin():
                yield session
            return
        with self._writer, Session(self._writing, expire_on_commit=False) as session, session.begin():
            yield session

    def upgrade(self) -> None:
        """Bring the schema to the newest revision; several processes may do so at once.

        Raises DatabaseError for a database that must or cannot be used, and changes nothing in it.
        """
        if foreign := self.why_foreign():
            raise DatabaseError(foreign)
        with self.refusing(), self._writing.begin() as connection:
            if not self.sqlite:
                connection.execute(text(f"select pg_advisory_xact_lock({_UPGRADE_LOCK})"))
            config = alembic_config(connection)
            if newer := why_newer(connection, config):
                raise DatabaseError(newer)
            command.upgrade(config, "head")
            if lacking := why_lacking(connection, config):
                raise DatabaseError(lacking)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Raises DatabaseError with the way out where the block finds the database away or damaged."""
        try:
            yield
        except DBAPIError as error:
            away = self.why_away(error)
            said = str(error.orig).strip().partition("\n")[0]
            raise DatabaseError(away or f"the database is damaged ({said}): {_RESTORE}") from error

    def why_foreign(self) -> str:
        """Why the file must not be opened as it lies there; empty where it may be."""
        inside = self.url.database
        return foreign_log(Path(inside)) if self.sqlite and inside and inside != ":memory:" else ""

    def why_not(self) -> str:
        """Why ``upgrade`` would refuse the database; empty where it would not. Changes nothing."""
        if foreign := self.why_foreign():
            return foreign
        with self.engine.connect() as connection:
            config = alembic_config(connection)
            return why_newer(connection, config) or why_lacking(connection, config)

    def why_away(self, error: Exception) -> str:
        """Why the database does not answer now, if another time it may; empty for any other error."""
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        if not lost and not isinstance(error, OperationalError | InterfaceError | PoolTimeout):
            return ""
        said = str(error.orig if isinstance(error, DBAPIError) else error).strip().partition("\n")[0]
        if any(word in said for word in _NOT_AWAY):
            return ""
        if "disk is full" in said or "No space left" in said:
            return f"the disk with {self.place} is full: free some of it"
        return f"the database does not answer: {said}"

    @property
    def place(self) -> str:
        """Where the data are, for people."""
        if self.sqlite:
            return str(Path(self.url.database or "").resolve().parent)
        return f"the database {self.url.render_as_string()}"

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def why_newer(connection: Connection, config: Config) -> str:
    """Says that a newer version has changed the database, which this one cannot read; empty if none has."""
    revision = MigrationContext.configure(connection).get_current_revision()
    known = ScriptDirectory.from_config(config)
    if revision is None or revision in {each.revision for each in known.walk_revisions()}:
        return ""
    by = ""
    with suppress(DBAPIError):
        last = connection.execute(
            text("select version from jobs where version <> '' order by id desc limit 1")
        )
        by = "".join(f", whose last job ran with version {each}" for each in last.scalars())
    return (
        f"the database was changed by a newer Tilefleet (its schema is {revision}{by}); this is version "
        f"{version('tilefleet')}, which knows schemas up to {known.get_current_head()}: update this one, or "
        "restore the backup from before the update (docs/operations.md)"
    )


def why_lacking(connection: Connection, config: Config) -> str:
    """Says that a database of the newest schema lacks parts of it; empty where it does not."""
    if (
        MigrationContext.configure(connection).get_current_revision()
        != ScriptDirectory.from_config(config).get_current_head()
    ):
        return ""
    there = inspect(connection)
    known = set(there.get_table_names())
    lacking = [table.name for table in Base.metadata.sorted_tables if table.name not in known]
    for table in Base.metadata.sorted_tables:
        if table.name in known:
            columns = {each["name"] for each in there.get_columns(table.name)}
            lacking += [f"{table}.{each.name}" for each in table.columns if each.name not in columns]
    return f"the database lacks {', '.join(lacking)}, which its schema has: {_RESTORE}" if lacking else ""


def alembic_config(connection: Connection) -> Config:
    """Alembic's settings for running the migrations over ``connection``."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _configure_sqlite(connection: Any, _: Any) -> None:
    connection.text_factory = _text
    connection.isolation_level = None  # we say BEGIN ourselves, see _begin_sqlite
    for pragma in ("busy_timeout=30000", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _text(raw: bytes) -> str:
    """What is no UTF-8 fails no query."""
    return raw.decode(errors="replace")


def _configure_postgresql(connection: Any, _: Any) -> None:
    connection.adapters.register_loader("timestamptz", _time_loader())
    # To compile a query takes seconds where it is thought to be long, and to run it milliseconds.
    connection.execute("SET jit = off")
    connection.commit()


@cache
def _time_loader() -> Any:
    """Reads times; what Python has none for (infinity, the year 20000) stays a text, which is no time."""
    from psycopg import DataError
    from psycopg.types.datetime import TimestamptzLoader

    class Loader(TimestamptzLoader):
        def load(self, data: Any) -> Any:
            try:
                return super().load(data)
            except DataError:
                return bytes(data).decode()

    return Loader


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
