"""All that a soak runs: two coordinators, their servers, a Dask scheduler, workers, four kinds of boards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from bench.soak.fleet_file import free_port, write_fleet
from bench.soak.network import Proxy, proxied
from bench.soak.servers import Postgres, Redis, new_database
from bench.soak.world import START_S, TOKEN, Service, World, wait_for
from worker.fleet.drivers.agent_build import build_agent, host_triple
from worker.fleet.drivers.simulated import why_no_emulator
from worker.fleet.times import USUAL

SIMULATED = "rpi4-sim"
DISK_MB = {"worker": 96, "postgres": 400}
KEEP_S = 0.5
SAID = 2000
"""Characters of each log that are shown when a soak fails."""
NO_FAKETIME = "libfaketime is not installed: apt-get install faketime"
LIAR_S = 40.0
"""How long a board may be offline whose server listens."""


class Lab:
    """The processes and whatever may be done to them; what ends is started again until ``close``.

    ``without`` says what this machine lacks, and so which faults are left out.
    """

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.world = World(home)
        self.without: dict[str, str] = {}
        self.scheduler_port, self.gateway_port, self.liar_port = free_port(), free_port(), free_port()
        self.disks = {name: stack.enter_context(_short_folder(name[:2])) for name in DISK_MB}
        for name, folder in self.disks.items():
            self._make_small(folder, DISK_MB[name], stack)
        self.postgres = Postgres(self.disks["postgres"])
        self.redis = Redis(stack.enter_context(_short_folder("re")))
        self.network: Proxy = stack.enter_context(proxied(self.gateway_port))
        self.clocks = {name: home / f"clock-{name}" for name in ("first", "second")}
        self.lie = "none"
        self.boards = {"host": "host", "dialler": "away", "liar": "liars"}
        """Each board's target."""
        if missing := why_no_emulator(SIMULATED):
            self.without["simulated board"] = missing
        else:
            self.boards[SIMULATED] = "rpi4"
        self.parked: list[str] = []
        """Boards that needed an operator, with the reason; the one that lies apart."""
        self.processes: dict[str, Popen[bytes]] = {}
        self.services: dict[str, Service] = {}
        self._closing = threading.Event()
        self._keepers: list[threading.Thread] = []
        self._starting = threading.Lock()

    def start(self) -> None:
        """Start everything and wait until every board has passed its health check."""
        self.postgres.start()
        self.redis.start()
        self.url = new_database(self.postgres.url)
        for name in ("scheduler", "liar", "dialler"):
            self.processes[name] = self._starters[name]()
        wait_for(lambda: "Scheduler at" in self.world.said("scheduler.log"), START_S)
        with ThreadPoolExecutor() as pool:  # importing is what takes so long
            workers = {name: pool.submit(self._starters[name]) for name in ("boards", "builds")}
            services = {name: pool.submit(self._service, name) for name in self.clocks}
        self.processes |= {name: each.result() for name, each in workers.items()}
        self.services = {name: each.result() for name, each in services.items()}
        self.services["first"].wait_good(*self.boards)
        # What ended is started again, as docker's ``restart: unless-stopped`` does.
        self._keepers = [threading.Thread(target=self._keep_processes)]
        self._keepers += [threading.Thread(target=self._keep_service, args=(name,)) for name in services]
        for keeper in self._keepers:
            keeper.start()

    def close(self) -> None:
        """End everything in good order; raises AssertionError when something stays."""
        self._closing.set()
        for keeper in self._keepers:
            keeper.join()
        for service in self.services.values():
            service.stop()
        for name in ("dialler", "liar"):
            self.world.kill(self.processes[name])
        self.world.close()
        self.redis.stop()
        self.postgres.stop()

    def give_up(self) -> None:
        """Kill everything; nothing is started again."""
        self._closing.set()
        while True:
            for process in self.world.processes():
                with suppress(Exception):
                    process.kill()
            if not any(keeper.is_alive() for keeper in self._keepers):
                break
            time.sleep(KEEP_S)  # one may have been starting something
        for server in (self.redis, self.postgres):
            with suppress(Exception):
                server.stop(signal.SIGKILL)

    def alive(self) -> list[Service]:
        """The coordinators that run."""
        return [each for each in self.services.values() if each.runs()]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The answer of the database itself. Raises psycopg.Error."""
        with psycopg.connect(self.url.replace("+psycopg", ""), connect_timeout=10) as connection:
            return connection.execute(statement.encode()).fetchall()

    def has_jobs(self, target: str) -> bool:
        """Whether a job of a target runs."""
        query = "select 1 from jobs j join targets t on t.key = j.target_key where j.state = 'running'"
        return bool(self.rows(f"{query} and t.name = '{target}'"))

    def set_lie(self, lie: str) -> None:
        """Let the liar lie so from now on, or be honest."""
        self.lie = lie
        self._restart_liar()
        wait_for(self._liar_listens, START_S)

    def _restart_liar(self) -> None:
        with self._starting:
            self.world.kill(self.processes["liar"])
            self.processes["liar"] = self._starters["liar"]()

    @property
    def _starters(self) -> dict[str, Callable[[], Popen[bytes]]]:
        return {
            "scheduler": self._scheduler,
            "liar": self._liar,
            "dialler": self._dialler,
            "boards": lambda: self._worker("boards", "--fleet", self._fleet()),
            "builds": lambda: self._worker("builds"),
        }

    def _keep_processes(self) -> None:
        while not self._closing.wait(KEEP_S):
            for name, process in list(self.processes.items()):
                with self._starting:
                    if process.poll() is not None and self.processes[name] is process:
                        self.processes[name] = self._starters[name]()
            self._wake_liar()
            self._return_parked()

    def _keep_service(self, name: str) -> None:
        while not self._closing.wait(KEEP_S):
            if not self.services[name].runs():
                with suppress(AssertionError):  # with the database away it ends at once
                    self.services[name].start()

    def _wake_liar(self) -> None:
        """TVM's own server answers no more when a client of it was killed."""
        if not self._liar_listens():
            self._liar_listened = time.monotonic()
        if time.monotonic() - self._liar_listened < LIAR_S:
            return
        with suppress(Exception):
            if self.alive()[0].client.board("liar").activity == "offline":
                self._restart_liar()

    def _return_parked(self) -> None:
        """Bring back, as an operator does, what was parked for faults of others."""
        with suppress(Exception):
            client = self.alive()[0].client
            for board in client.boards():
                if board.health == "bad" and board.id != "liar":
                    self.parked.append(f"{board.id}: {board.reason}")
                    client.change_board(board.id, "return")
                elif board.health == "bad" and self.lie == "none":  # its server hangs: see _wake_liar
                    self.set_lie("none")
                    client.change_board(board.id, "return")

    def _scheduler(self) -> Popen[bytes]:
        dask = (sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port")
        options = ("--no-dashboard", "--preload", "worker.engine.steady")
        return self.world.start(*dask, self.scheduler_port, *options, log="scheduler.log")

    @property
    def _address(self) -> str:
        return f"tcp://127.0.0.1:{self.scheduler_port}"

    def _worker(self, name: str, *boards: object) -> Popen[bytes]:
        state = self.disks["worker"] / name
        state.mkdir(exist_ok=True)
        command = (sys.executable, "-m", "worker", "--scheduler", self._address, "--state-dir", state)
        return self.world.start(*command, *boards, log=f"{name}.log")

    def _fleet(self) -> Path:
        token = self.world.home / "dialler.token"
        boards: list[dict[str, object]] = [{"id": "host", "kind": "host"}]
        boards.append({"id": "dialler", "kind": "dial", "target": "away", "token_file": str(token)})
        address = f"127.0.0.1:{self.liar_port}"
        boards.append({"id": "liar", "kind": "rpc", "target": "liars", "address": address})
        if SIMULATED in self.boards:
            boards.append({"id": SIMULATED, "kind": "simulated", "model": SIMULATED})
        return write_fleet(self.world.home / "fleet.toml", boards, self.gateway_port)

    def _liars(self) -> int:
        """How often a liar has come so far that it listens."""
        log = self.world.home / "liar.log"
        return log.read_text(errors="replace").splitlines().count(str(self.liar_port)) if log.exists() else 0

    def _liar_listens(self) -> bool:
        return self._liars() > self._liars_before

    def _liar(self) -> Popen[bytes]:
        self._liars_before = self._liars()
        self._liar_listened = time.monotonic()
        return self.world.start(
            sys.executable, "-m", "bench.soak.liar", self.liar_port, self.lie, log="liar.log"
        )

    def _dialler(self) -> Popen[bytes]:
        token = self.world.home / "dialler.token"
        token.touch(mode=0o600)
        token.write_text(TOKEN)
        agent = build_agent(host_triple(), self.world.home)
        where = ("--dial", f"127.0.0.1:{self.network.port}", "--token-file", token)
        return self.world.start(agent, "--key", "dialler", "--threads", 1, *where, log="dialler.log")

    def _service(self, name: str) -> Service:
        settings = {
            "TILEFLEET_DATABASE_URL": self.url,
            "TILEFLEET_REDIS_URL": self.redis.url,
            "TILEFLEET_SCHEDULER": self._address,
            "TILEFLEET_MODELS": str(self.world.home / "models"),
        }
        faked = false_clock(self.clocks[name])
        if not faked:
            self.without["clock"] = NO_FAKETIME
        settings |= faked
        return Service(self.world, name=name, times=USUAL, **settings)

    def _make_small(self, folder: Path, size_mb: int, stack: ExitStack) -> None:
        """Make a folder a disk of its own, which can be filled up, where that is allowed."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            self.without["disk"] = "no disk may be mounted here"
        else:
            stack.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)


def false_clock(file: Path) -> dict[str, str]:
    """What a process needs in its environment so that its clock differs by what the file says, now nothing.

    Empty where Debian's libfaketime is not installed.
    """
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        return {}
    file.write_text("+0")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def fill(file: Path) -> None:
    """Write until the disk has not a byte left."""
    with file.open("wb", buffering=0) as stuffing, suppress(OSError):
        while stuffing.write(os.urandom(1 << 12)):
            pass


@contextmanager
def _short_folder(prefix: str) -> Iterator[Path]:
    with TemporaryDirectory(prefix=prefix) as folder:
        yield Path(folder)


@contextmanager
def lab() -> Iterator[Lab]:
    """A started lab in a folder of its own, and nothing of it left in the end."""
    with ExitStack() as stack:
        made = Lab(stack.enter_context(_short_folder("soak")), stack)
        try:
            made.start()
            yield made
            made.close()
        except BaseException:
            made.give_up()
            for log in sorted(made.world.home.glob("*.log")):
                print(f"--- {log.name}\n{made.world.said(log.name)[-SAID:]}", file=sys.stderr)
            raise
