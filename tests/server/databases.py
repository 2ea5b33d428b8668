"""Private PostgreSQL and Redis servers for tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from bench.soak.servers import MissingError, Postgres, Redis, new_database

__all__ = ["new_database", "postgres", "redis_url", "started"]


def lacking(what: str) -> None:
    """Skip for want of a tool; on CI, where every tool must be there, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")


Server = TypeVar("Server", Postgres, Redis)


@contextmanager
def started(kind: type[Server]) -> Iterator[Server]:
    """A server of a kind, which the test may stop and start."""
    with tempfile.TemporaryDirectory(prefix=kind.__name__[:2].lower()) as folder:
        try:
            server = kind(Path(folder))
        except MissingError as missing:
            lacking(str(missing))
            raise
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a private PostgreSQL server, without the database's name."""
    with started(Postgres) as server:
        yield server.url


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """URL of a private Redis server on a socket of its own."""
    with started(Redis) as server:
        yield server.url
