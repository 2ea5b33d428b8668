"""Private PostgreSQL and Redis servers for tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis


def lacking(what: str) -> None:
    """Skip for want of a tool; on CI, where every tool must be there, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")


def postgres_bin(name: str) -> Path | None:
    """A PostgreSQL program, from Debian's place (which holds pg_ctl and initdb) or PATH."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / name).exists():
            return folder / name
    found = shutil.which(name)
    return Path(found) if found else None


class Postgres:
    """A private PostgreSQL server on a socket of its own, below ``folder``; its name must be short, since a
    socket's path has 107 characters."""

    def __init__(self, folder: Path) -> None:
        initdb, server = postgres_bin("initdb"), postgres_bin("postgres")
        as_user: list[str] = []
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            as_user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
            if shutil.which("setpriv") is None:
                lacking("setpriv")
            shutil.chown(folder, "nobody", "nogroup")
        if initdb is None or server is None:
            lacking("PostgreSQL")
        data, self._folder = folder / "data", folder
        make = [*as_user, str(initdb), "-D", str(data), "-U", "postgres", "--auth=trust", "-E", "UTF8", "-N"]
        subprocess.run(make, check=True, capture_output=True, cwd="/")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        self._run = [*as_user, str(server), "-D", str(data), *options.split()]
        self.url = f"postgresql+psycopg://postgres@/{{}}?host={folder}"
        """Without the database's name."""

    def start(self) -> None:
        """Start it, again too, and wait until it answers."""
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(self._run, stdout=output, stderr=output, cwd="/")
        where = f"host={self._folder} user=postgres"
        _wait_for(lambda: psycopg.connect(where).close(), self._process, log)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it, by default so that a connection that is still open does not hold it up."""
        self._process.send_signal(how)
        self._process.wait(120)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a private PostgreSQL server, without the database's name."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = Postgres(Path(folder))
        server.start()
        yield server.url
        server.stop()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """URL of a private Redis server on a socket of its own."""
    server = shutil.which("redis-server")
    if server is None:
        lacking("redis-server")
        return
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        socket = Path(folder) / "socket"
        run = [server, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", folder]
        log = Path(folder) / "log"
        with log.open("wb") as output, subprocess.Popen(run, stdout=output, stderr=output) as process:
            try:
                client = redis.Redis(unix_socket_path=str(socket))
                _wait_for(client.ping, process, log)
                client.close()
                yield f"unix://{socket}"
            finally:
                process.terminate()
                process.wait(120)


def _wait_for(probe, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            probe()
            return
        except (psycopg.OperationalError, redis.ConnectionError):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)


def new_database(postgres: str) -> str:
    """URL of a new, empty database on a server."""
    name = f"test_{uuid.uuid4().hex}"
    folder = postgres.split("host=")[1]
    with psycopg.connect(f"host={folder} user=postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return postgres.format(name)
