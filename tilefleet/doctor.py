"""Whether this machine has what Tilefleet needs; whatever may crash is tried in a child process."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from server.settings import Settings
from tilefleet.configuration import read_settings
from worker.fleet.drivers.spec import BoardSpec
from worker.private_folder import keep_private

REINSTALL = "run `make setup`, or install requirements.lock with --require-hashes"
_CHILD_S = 300


@dataclass(frozen=True)
class Finding:
    """One thing looked at: what was found and, when it is not ``ok``, how to mend it."""

    name: str
    ok: bool
    detail: str
    mend: str = ""

    def line(self) -> str:
        """The finding as a line of text."""
        text = f"{'ok  ' if self.ok else 'FAIL'}  {self.name}: {self.detail}"
        return text if self.ok else f"{text}\n      mend: {self.mend}"


class Broken(Exception):
    """Something is wrong; the message says what."""


def examine(say: Callable[[str], None]) -> Iterator[Finding]:
    """Look at everything, one finding at a time. Services are looked at where they are configured.

    ``say`` is told the name of each before it is looked at: some take many seconds.
    """
    settings = read_settings()
    checks: list[tuple[str, Callable[[], str], str]] = [
        ("python", _python, "install Python 3.11 or newer and run `make setup`"),
        ("packages", _packages, REINSTALL),
        ("linker", lambda: _child("zig"), f"ziglang from PyPI must run on this machine; {REINSTALL}"),
        ("tvm", lambda: _child("tvm"), f"a newer tvm-ffi than pinned crashes; {REINSTALL}"),
        ("host", lambda: _child("host"), "see the message; it comes from /proc/cpuinfo and TVM's LLVM"),
        ("lightgbm", lambda: _child("lightgbm"), f"it needs libgomp (apt-get install libgomp1); {REINSTALL}"),
        ("state folder", lambda: _state(settings.home_dir), "set TILEFLEET_HOME to a folder you can write"),
        (
            "database",
            lambda: _database(settings),
            "check TILEFLEET_DATABASE_URL and that its server runs",
        ),
        ("board", lambda: _board(settings.home_dir), "see the message; the agent is C11 built by ziglang"),
    ]
    for spec in settings.plan.boards:
        if spec is not settings.plan.host:  # which "board" tries
            checks.append((f"board {spec.id}", partial(could_start, spec), "see the message"))
    if settings.redis_url:
        checks.append(("redis", lambda: _redis(settings), "check TILEFLEET_REDIS_URL and that Redis runs"))
    if settings.scheduler:
        checks.append(
            ("scheduler", lambda: _scheduler(settings), "check TILEFLEET_SCHEDULER; start `dask scheduler`")
        )
    for name, check, mend in checks:
        say(name)
        yield _finding(name, check, mend)


def _finding(name: str, check: Callable[[], str], mend: str) -> Finding:
    try:
        return Finding(name, True, check())
    except Exception as error:  # whatever a broken machine raises is the finding
        return Finding(name, False, str(error) or type(error).__name__, mend)


def _python() -> str:
    wanted = metadata("tilefleet")["Requires-Python"]
    if not SpecifierSet(wanted).contains(platform.python_version(), prereleases=True):
        raise Broken(f"{platform.python_version()} is not {wanted}")
    return f"{platform.python_version()} on {platform.machine()} {platform.system()}"


def _packages() -> str:
    wrong = []
    wanted = [Requirement(text) for text in requires("tilefleet") or []]
    wanted = [requirement for requirement in wanted if "extra" not in str(requirement.marker or "")]
    for requirement in wanted:
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            wrong.append(f"{requirement.name} is {found}, not {requirement.specifier}")
    if wrong:
        raise Broken("; ".join(wrong))
    pins = ", ".join(f"{name} {version(name)}" for name in ("apache-tvm", "apache-tvm-ffi", "ziglang"))
    return f"all {len(wanted)} as required: {pins}"


def _child(test: str) -> str:
    """Run one self-test in a process of its own; its last line is what it found."""
    command = [sys.executable, "-P", "-m", "tilefleet.selftest", test]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_CHILD_S, check=False)
    except subprocess.TimeoutExpired:
        raise Broken(f"the self-test did not end within {_CHILD_S} s") from None
    if result.returncode:
        last = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()[-1]
        how = f"killed by signal {-result.returncode}" if result.returncode < 0 else "failed"
        raise Broken(f"the self-test {how}: {last}")
    return result.stdout.strip().splitlines()[-1]


def _state(home: Path) -> str:
    keep_private(home)
    probe = home / ".doctor"
    probe.write_text("")
    probe.unlink()
    return f"{home} can be written"


def _database(settings: Settings) -> str:
    from server.db.database import Database, DatabaseError

    database = Database(settings.database)
    with database.refusing():
        problem = database.why_not()  # before anything opens it
    database.close()
    if problem:
        raise DatabaseError(problem)
    engine = database.engine
    return f"{engine.dialect.name} answers at {engine.url.render_as_string(hide_password=True)}"


def _board(home: Path) -> str:
    from worker.fleet.drivers.host import NativeBoard

    with NativeBoard("doctor", state_dir=home / "boards") as board:
        if not board.alive():
            raise Broken("the agent ended at once")
        return f"the agent builds, starts and listens on {board.host} port {board.port}"


def could_start(spec: BoardSpec) -> str:
    """What a board could start with; one that others run need not be there now. Raises Broken."""
    if problem := spec.why_not():
        raise Broken(problem)
    return spec.outlook()


def _redis(settings: Settings) -> str:
    import redis

    connection = redis.Redis.from_url(str(settings.redis_url), socket_timeout=5, socket_connect_timeout=5)
    connection.ping()
    return "answers"


def _scheduler(settings: Settings) -> str:
    from distributed import Client

    with Client(settings.scheduler, timeout=10) as client:  # type: ignore[no-untyped-call]  # ships none
        return f"answers, with {len(client.scheduler_info()['workers'])} workers"
