"""Private PostgreSQL and Redis servers that may be killed, stopped and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psycopg
import redis

START_S = 120


class MissingError(RuntimeError):
    """A program that is needed is not installed; the message is its name."""


def postgres_bin(name: str) -> Path | None:
    """A PostgreSQL program, from Debian's place (which holds pg_ctl and initdb) or PATH."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / name).exists():
            return folder / name
    found = shutil.which(name)
    return Path(found) if found else None


class Postgres:
    """A private PostgreSQL server on a socket of its own, below ``folder``; its name must be short, since a
    socket's path has 107 characters. Raises MissingError."""

    def __init__(self, folder: Path) -> None:
        initdb, server = postgres_bin("initdb"), postgres_bin("postgres")
        as_user: list[str] = []
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            as_user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
            if shutil.which("setpriv") is None:
                raise MissingError("setpriv")
            shutil.chown(folder, "nobody", "nogroup")
        if initdb is None or server is None:
            raise MissingError("PostgreSQL")
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
            self.process = subprocess.Popen(self._run, stdout=output, stderr=output, cwd="/")
        where = f"host={self._folder} user=postgres"
        _wait_for(lambda: psycopg.connect(where).close(), self.process, log)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it, by default so that a connection that is still open does not hold it up."""
        self.process.send_signal(how)
        self.process.wait(120)


def new_database(postgres: str) -> str:
    """URL of a new, empty database on a server."""
    name = f"test_{uuid.uuid4().hex}"
    folder = postgres.split("host=")[1]
    with psycopg.connect(f"host={folder} user=postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return postgres.format(name)


class Redis:
    """A private Redis server on a socket of its own, below ``folder``. Raises MissingError."""

    def __init__(self, folder: Path) -> None:
        server = shutil.which("redis-server")
        if server is None:
            raise MissingError("redis-server")
        self._socket, self._log = folder / "socket", folder / "log"
        self._run = [
            server,
            "--port",
            "0",
            "--unixsocket",
            str(self._socket),
            "--save",
            "",
            "--dir",
            str(folder),
        ]
        self.url = f"unix://{self._socket}"

    def start(self) -> None:
        """Start it, again too, and wait until it answers."""
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(self._run, stdout=output, stderr=output)
        with redis.Redis(unix_socket_path=str(self._socket)) as client:
            _wait_for(client.ping, self.process, self._log)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        self.process.send_signal(how)
        self.process.wait(120)


def _wait_for(probe: Callable[[], object], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            probe()
            return
        except (psycopg.OperationalError, redis.ConnectionError):
            if process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the server did not start: {said}") from None
            time.sleep(0.05)
