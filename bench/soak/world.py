"""A fleet as users run it: real processes of the product around one folder, and whom to kill among them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tilefleet import Client
from worker.fleet.drivers.agent_build import build_agent, host_triple
from worker.fleet.times import USUAL, FleetTimes

MIN_TIME_MS = "500"
"""So long that a job is not over by the time its first trials have been heard of, on a busy machine too."""
TOKEN = "correct-horse-battery-staple"
POLL_S = 0.1
"""Between two looks: each may be a request, which costs the service processor time."""
START_S = 240
"""The very first start on a machine builds the board agent and zig's C library."""
T = TypeVar("T")


def wait_for(what: Callable[[], T], seconds: float = 120, why: Callable[[], object] = str) -> T:
    """The first true value of ``what()``; processes may end while it looks at them."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := what():
                return found
        except psutil.Error:
            pass
        if time.monotonic() > deadline:
            raise AssertionError(f"it has not happened: {why()}")
        time.sleep(POLL_S)


class World:
    """What runs in state folders below ``home``; nothing of it may be left in the end."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._started: list[subprocess.Popen[bytes]] = []
        self._foreign: list[subprocess.Popen[bytes]] = []

    def start(
        self, *command: object, log: str, home: Path | None = None, **environment: str
    ) -> subprocess.Popen[bytes]:
        """A process of this world; what it says is in the file ``log``."""
        with (self.home / log).open("ab") as output:
            process = subprocess.Popen(
                [*map(str, command)],
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path),
                    "TILEFLEET_MIN_TIME_MS": MIN_TIME_MS,
                    **environment,
                    "TILEFLEET_HOME": str(home or self.home),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._started.append(process)
        return process

    def start_agent(self, board: str, port: int) -> subprocess.Popen[bytes]:
        """Our agent as on a board of its own: it listens at ``port`` for who knows the token."""
        (self.home / f"{board}.token").write_text(TOKEN)
        program = build_agent(host_triple(), self.home)
        return self.start(
            *(program, "--bind", "127.0.0.1", "--port", port, "--key", board, "--threads", 1),
            *("--token-file", self.home / f"{board}.token"),
            log=f"{board}.log",
        )

    def start_tvm(self, program: str, *options: object) -> subprocess.Popen[bytes]:
        """One of TVM's own programs."""
        process = self.start(sys.executable, "-m", f"tvm.exec.{program}", *options, log=f"{program}.log")
        self._foreign.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process with all that it started and wait for it."""
        tree = psutil.Process(process.pid)
        for each in [*tree.children(recursive=True), tree]:
            each.kill()
        process.wait()

    def said(self, log: str) -> str:
        """All that is in a log."""
        return (self.home / log).read_text(errors="replace")

    def close(self) -> None:
        """End in good order whatever still runs, the last first; nothing may stay."""
        for process in reversed(self._started):
            if process in self._foreign and process.poll() is None:
                self.kill(process)  # it would leave children behind
            elif process.poll() is None:
                process.terminate()
            process.wait(120)
        self.assert_gone(self.processes())

    def processes(self) -> list[psutil.Process]:
        """Whatever was started in this world and lives, whoever its parent is by now."""
        found = []
        for process in psutil.process_iter():
            try:
                home = process.environ().get("TILEFLEET_HOME", "")
                if Path(home).is_relative_to(self.home) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    @staticmethod
    def assert_gone(processes: list[psutil.Process]) -> None:
        """They end within a while."""
        _, left = psutil.wait_procs(processes, timeout=60)
        alive = [each for each in left if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
        assert not alive, [each.cmdline() for each in alive]

    def agents(self, board: str) -> list[psutil.Process]:
        """The agents of a board that live, not the sessions that they fork."""
        mine = [each for each in self.processes() if _key(each) == board]
        return [each for each in mine if each.ppid() not in {other.pid for other in mine}]

    def agent(self, board: str) -> psutil.Process:
        """The one agent of a board."""
        agents = self.agents(board)
        assert len(agents) == 1, agents
        return agents[0]

    def measuring_child(self, board: str) -> psutil.Process:
        """Who measures on a board: whoever has its lock file open."""
        lock = f"board-{board}.lock"

        def holders() -> list[psutil.Process]:
            return [
                each
                for each in self.processes()
                if any(Path(file.path).name == lock for file in each.open_files())
            ]

        return wait_for(holders)[0]


@contextmanager
def stopped(*processes: psutil.Process) -> Iterator[None]:
    """They stand still meanwhile, the first one first.

    Some may be gone by then: a child that has ended is reaped as soon as its parent goes on.
    """
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.suspend()
    try:
        yield
    finally:
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.resume()


def session(agent: psutil.Process) -> psutil.Process:
    """The session that an agent serves, as soon as there is one."""
    return wait_for(agent.children)[0]


def _key(process: psutil.Process) -> str:
    """The value of ``--key`` of an agent."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return ""
    is_agent = any("tilefleet-agent" in word for word in words)  # the emulator of one has it among its words
    return dict(pairwise(words)).get("--key", "") if is_agent else ""


class Service:
    """``tilefleet up`` in a world, and a client of it, with its usual deadlines or others.

    A board's time is no sign of its health where other tests run at the same time, and the machine so is
    busy.
    """

    BUSY = True

    def __init__(
        self,
        world: World,
        *arguments: object,
        name: str = "up",
        times: FleetTimes = USUAL,
        **settings: str,
    ) -> None:
        self.world, self.home, self._log = world, world.home / name, f"{name}.log"
        self.home.mkdir(exist_ok=True)
        if self.BUSY:
            times = replace(times, drift_limit=1000.0, kin_limit=1000.0)
        settings["TILEFLEET_TIMES"] = json.dumps(asdict(times))
        self._arguments, self._settings = arguments, settings
        self.start()

    def start(self) -> None:
        """Start it, again too, and wait until it answers."""
        (self.home / "url").unlink(missing_ok=True)
        command = (sys.executable, "-m", "tilefleet", "up", "--port", "0", *self._arguments)
        self.process = self.world.start(*command, log=self._log, home=self.home, **self._settings)

        def url() -> str:
            assert self.process.poll() is None, self.world.said(self._log)
            file = self.home / "url"
            return file.read_text().strip() if file.exists() else ""

        self.client = Client(wait_for(url, START_S))

    def stop(self) -> None:
        """End it as a user does; all its processes end with it."""
        tree = self.tree()
        self.process.terminate()
        assert self.process.wait(120) == 0, self.world.said(self._log)
        self.world.assert_gone(tree)

    def runs(self) -> bool:
        """Whether its process lives."""
        return self.process.poll() is None

    def tree(self) -> list[psutil.Process]:
        """All that it started and that they started."""
        found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return found

    def wait_good(self, *boards: str) -> None:
        """Until these boards have passed their health checks."""

        def good() -> bool:
            healths = {board.id: f"{board.health}" for board in self.client.boards()}
            return all(healths.get(board) == "good" for board in boards)

        wait_for(good, START_S, why=lambda: self.client.boards())

    def history(self, board: str, after: int = 0) -> list[Any]:
        """What happened to a board after an event, the oldest first."""
        return [event for event in reversed(self.client.board_history(board, 500)) if event.id > after]

    def mark(self, board: str) -> int:
        """A board's last event so far."""
        return max((event.id for event in self.history(board)), default=0)
