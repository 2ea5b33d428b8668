"""A board whose agent runs on this machine: started, watched, and restarted when it dies."""

from __future__ import annotations

import os
import resource
import secrets
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from worker.fleet.drivers.base import BoardError

START_TIMEOUT_S = 30.0
MAX_FAILED_STARTS, LONGEST_PAUSE_S = 5, 60.0
MAX_LOG_BYTES = 1 << 20


class AgentBoard(ABC):
    """An agent on 127.0.0.1 and a free port; a context manager.

    Whoever may open a session may run code as the user who started it, and any user of this machine reaches
    loopback: so each agent gets a token of its own, through a pipe that nobody else can read.

    The agent may use ``cpus`` and its thread pool has ``threads`` threads. ``clock`` says how its times come
    about (``Driver.clock``). ``state_dir`` holds what is built for it and its log. A session may use
    ``memory_mb`` of address space. The port stays the same over restarts when it can, so read ``port`` for
    each new session.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        id: str,
        *,
        state_dir: Path,
        cpus: Sequence[int],
        threads: int,
        target: str,
        clock: str,
        memory_mb: int,
    ) -> None:
        self.id = id
        self.cpus = sorted(cpus)
        self.threads = threads
        self.target = target
        self.clock = clock
        self.port = 0
        self.starts = 0
        self._token = secrets.token_hex(32)
        self._memory_mb = memory_mb
        self._state_dir = state_dir.resolve()
        self._address_space_bytes: int | None = None
        self._command: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._listening = False
        self._problem = ""
        self._stopping = self._over = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def _prepare(self) -> list[str]:
        """Build what is needed and return the agent's command without its common options."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def key(self) -> str:
        """The RPC key, which is a secret."""
        return f"{self.id}.{self._token}"

    @property
    def address(self) -> dict[str, Any]:
        """Where the agent listens now; ``BoardHandle.address``."""
        return {"host": self.host, "port": self.port, "key": self.key}

    def start(self) -> None:
        """Build what is missing, start the agent and wait until it listens. Raises BoardError."""
        unknown = set(self.cpus) - os.sched_getaffinity(0)
        if unknown:
            raise BoardError(f"board {self.id}: this process may not use the CPUs {sorted(unknown)}")
        self._command = self._prepare()
        with self._changed:
            if self._over:
                raise BoardError(f"board {self.id}: it was stopped before it had started")
            self._stopping, self._problem = False, ""
            starts = self.starts
            # The kernel kills the agent with the thread that started it, which lives as long as the board.
            self._thread = threading.Thread(target=self._supervise, name=f"board-{self.id}", daemon=True)
            self._thread.start()
        try:
            self._await_start(after=starts)
        except BoardError:
            self._end()
            raise

    def stop(self) -> None:
        """End the agent and whatever session it serves, for good: a start that is under way comes to none."""
        with self._changed:
            self._over = True
        self._end()

    def _end(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            if self._process:
                self._process.kill()
            thread, self._thread = self._thread, None
        if thread:
            thread.join()

    def alive(self) -> bool:
        """Whether the agent runs and listens now."""
        with self._changed:
            return self._listening and self._process is not None and self._process.poll() is None

    def restart(self) -> None:
        """Kill the agent with its session and wait until a new one listens. Raises BoardError."""
        with self._changed:
            starts = self.starts
            if self._process:
                self._process.kill()
        self._await_start(after=starts)

    def _await_start(self, after: int) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self.starts > after or self._problem or self._over, START_TIMEOUT_S
            )
            if self.starts <= after:
                raise BoardError(f"board {self.id}: {self._problem or 'its agent did not start in time'}")

    def _supervise(self) -> None:
        """Start the agent again and again until told to stop, after failures with ever longer pauses."""
        os.sched_setaffinity(0, self.cpus)  # this thread's, which the agent inherits
        failures = 0
        while not self._stopping:
            reason = f"see {self._log_path}"
            try:
                failures = 0 if self._run_once() else failures + 1
            except OSError as error:
                failures, reason = failures + 1, str(error)
            with self._changed:  # what keeps it from starting may pass
                failed = f"its agent failed to start {failures} times: {reason}"
                self._problem = failed if failures >= MAX_FAILED_STARTS else ""
                self._changed.notify_all()
                pause = min(LONGEST_PAUSE_S, 0.1 * 2 ** min(failures, 20)) if failures else 0.0
                self._changed.wait_for(lambda: self._stopping, pause)

    @property
    def _log_path(self) -> Path:
        return self._state_dir / f"board-{self.id}.log"

    def _run_once(self) -> bool:
        """Run one agent to its end; whether it ever listened."""
        fresh = not self._log_path.exists() or self._log_path.stat().st_size > MAX_LOG_BYTES
        with self._log_path.open("wb" if fresh else "ab") as log, self._changed:
            if self._stopping:
                return True
            options: dict[str, Any] = {
                "--port": self.port,
                "--key": self.id,
                "--threads": self.threads,
                "--memory-mb": self._memory_mb,
                "--parent": os.getpid(),
            }
            self._token, self._listening = secrets.token_hex(32), False
            with _pipe_of(self._token) as readable:
                options["--token-file"] = f"/dev/fd/{readable}"
                command = [*self._command, *(str(word) for pair in options.items() for word in pair)]
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd="/",
                    pass_fds=[readable],
                )
            if limit := self._address_space_bytes:
                resource.prlimit(self._process.pid, resource.RLIMIT_AS, (limit, limit))
        with self._process as process:
            assert process.stdout is not None  # asked for above
            line = process.stdout.readline()
            with self._changed:
                self.port = int(line) if line else 0  # after a failure any free port will do
                if line:
                    self._listening = True
                    self.starts += 1
                    self._problem = ""
                    self._changed.notify_all()
            process.wait()
        return bool(line)


@contextmanager
def _pipe_of(token: str) -> Iterator[int]:
    """The end of a pipe from which a child reads a token."""
    readable, writable = os.pipe()
    try:
        os.write(writable, f"{token}\n".encode())  # less than any pipe holds
        os.close(writable)
        yield readable
    finally:
        os.close(readable)
