"""Every database test on both databases, and a server on a scripted engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import new_database, postgres, redis_url
from fake_engine import FakeEngine
from fastapi.testclient import TestClient

from server.app import create_app
from server.db.database import Database
from server.settings import Settings
from worker.children.nursery import Nursery

__all__ = ["postgres", "redis_url"]


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.sqlite3'}"
    return new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    """A database with the newest schema."""
    database = Database(database_url)
    database.upgrade()
    yield database
    database.close()


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """Settings of a server under test."""
    return Settings(
        home=tmp_path / "home", database_url=database_url, max_model_mb=1, allowed_hosts=("testserver",)
    )


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where models are parsed: one for all tests, because importing TVM takes seconds."""
    with Nursery(preload=("tvm", "compiler.intake.extract", "compiler.intake.trial")) as shared:
        yield shared


@pytest.fixture
def engine() -> FakeEngine:
    """The engine of the server under test."""
    return FakeEngine()


@pytest.fixture
def client(settings: Settings, engine: FakeEngine, nursery: Nursery) -> Iterator[TestClient]:
    """A running server."""
    with TestClient(create_app(settings, engine.open, nursery)) as running:
        yield running
