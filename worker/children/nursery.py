"""A nursery: one process that has imported the slow libraries, and forks a disposable child a call.

Whatever can hang, crash or be hostile runs in such a child; a child costs milliseconds, not the seconds that
importing TVM takes. Requests and answers are JSON, never pickles.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from worker.children.frames import FrameReader, frame
from worker.shortage import shortage

Json = Any
STDERR_BYTES = 8 * 1024
"""How much of the end of a child's output is kept."""
_START_S = 120.0
_CANCEL_POLL_S = 0.05
_SHORT_S, _SHORT_POLL_S = 10.0, 0.2
"""For how long descriptors or memory may be short, and how often that is looked at."""
_READ_BYTES = 256 * 1024
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TVM_NUM_THREADS"), "1")


class Flag(Protocol):
    """What tells a call to give up; a ``threading.Event`` is one."""

    def is_set(self) -> bool:
        """Whether to give up."""


class ChildError(Exception):
    """A call that ended without a result."""


class ChildTimeout(ChildError):
    """The deadline passed; the child was killed."""


class ChildCancelled(ChildError):
    """The caller's event was set; the child was killed."""


class ChildCrashed(ChildError):
    """The child died; ``signal`` is what killed it, or None when it just exited."""

    def __init__(self, reason: str, signal: int | None, stderr_tail: str) -> None:
        super().__init__(reason)
        self.signal, self.stderr_tail = signal, stderr_tail


class ChildRaised(ChildError):
    """The function raised; ``type_name`` is the exception's class and ``message`` its text."""

    def __init__(self, type_name: str, message: str, stderr_tail: str) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name, self.message, self.stderr_tail = type_name, message, stderr_tail


class NurseryError(RuntimeError):
    """The nursery itself did not start; the message says what it printed."""


class _NurseryDied(Exception):
    """The nursery went away while a child of it was working."""


class Nursery:
    """Runs functions in disposable children; any number of threads may call at once.

    ``preload`` names the modules to import before forking, ``cpus`` the cores that the children may use
    (all by default), ``env`` additions to their environment. A nursery that died is started anew by the next
    call. Usable as a context manager.
    """

    def __init__(
        self,
        preload: Sequence[str] = ("tvm", "kernels.registry"),
        cpus: Sequence[int] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._preload, self._env = tuple(preload), dict(env or {})
        self._cpus = list(cpus or ())
        self._shared: Nursery | None = None
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def on(self, cpus: Sequence[int]) -> Nursery:
        """The same process, which goes on to belong to this nursery, with other cores for the children."""
        other = Nursery((), cpus)
        other._shared = self
        return other

    @property
    def pid(self) -> int | None:
        """The process id of the nursery, or None when it is not running."""
        process = (self._shared or self)._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start the process and wait until it has imported everything; raises NurseryError."""
        owner = self._shared or self
        with owner._lock:
            owner._ensure()

    def close(self) -> None:
        """Kill all children and the nursery."""
        with self._lock:
            self._closed = True
            self._drop()

    def call(
        self,
        function: str,
        payload: Json,
        *,
        timeout_s: float,
        silence_s: float | None = None,
        memory_bytes: int | None = None,
        on_message: Callable[[Json], None] | None = None,
        cancelled: Flag | None = None,
    ) -> Json:
        """Call ``"module:function"`` with ``payload`` in a new child and return what it returns.

        With ``on_message`` the function is called as ``function(payload, send)`` and whatever it sends
        arrives there at once, in the calling thread. ``memory_bytes`` limits what the child may allocate.
        The child and its process group are killed when ``timeout_s`` has passed or nothing was sent for
        ``silence_s`` (ChildTimeout), or ``cancelled`` is set (ChildCancelled). Raises ChildCrashed or
        ChildRaised when it failed, and Shortage when this process or machine has stayed out of
        descriptors or memory.
        """
        request = {
            "function": function,
            "payload": payload,
            "memory_bytes": memory_bytes,
            "messages": on_message is not None,
            "cpus": self._cpus if self._shared else [],
        }
        deadline = time.monotonic() + min(timeout_s, _SHORT_S)
        while True:
            try:
                return self._call(request, timeout_s, silence_s, memory_bytes, on_message, cancelled)
            except OSError as error:
                short = shortage(error)
                if short is None:
                    raise
                if time.monotonic() > deadline:
                    raise short from None
            if cancelled is not None and cancelled.is_set():
                raise ChildCancelled("cancelled")
            time.sleep(_SHORT_POLL_S)

    def _call(
        self,
        request: Json,
        timeout_s: float,
        silence_s: float | None,
        memory_bytes: int | None,
        on_message: Callable[[Json], None] | None,
        cancelled: Flag | None,
    ) -> Json:
        for last_try in (False, True):
            call = _Call(on_message, cancelled)
            try:
                with call:
                    (self._shared or self)._fork(call)
                    return call.run(frame(request), timeout_s, silence_s)
            except _NurseryDied:
                # Somebody killed it, or it ran out of memory: once is bad luck, twice is this call's doing.
                if last_try or call.got_messages:
                    raise ChildCrashed("the nursery died under it", signal.SIGKILL, call.stderr) from None
        raise AssertionError("unreachable")

    def _fork(self, call: _Call) -> None:
        with self._lock:
            for last_try in (False, True):
                control = self._ensure()
                try:
                    socket.send_fds(control, [b"f"], call.child_ends)
                    break
                except OSError as error:
                    if shortage(error):  # what others run here goes on
                        raise
                    self._drop()
                    if last_try:
                        raise NurseryError("the nursery does not stay up") from None

    def _ensure(self) -> socket.socket:
        if self._closed:
            raise NurseryError("the nursery is closed")
        if self._control is not None and self.pid is not None:
            return self._control
        self._drop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", "-m", "worker.children.nursery_child", str(theirs.fileno())]
        command += [json.dumps(self._cpus), *self._preload]
        # The child finds the modules that the caller finds, wherever either was started.
        environment = {**os.environ, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join(p or "." for p in sys.path)}
        with theirs, tempfile.TemporaryFile() as errors:
            self._control = ours
            self._process = subprocess.Popen(
                command,
                env={**environment, **self._env},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
            theirs.close()
            ours.settimeout(_START_S)
            try:
                ready = ours.recv(1)
            except OSError:
                ready = b""
            if not ready:
                self._drop()
                errors.seek(0)
                tail = errors.read()[-STDERR_BYTES:].decode(errors="replace").strip()
                raise NurseryError(f"the nursery did not start: {tail or 'it said nothing'}")
        ours.settimeout(None)
        return ours

    def _drop(self) -> None:
        """End the present process, if any; its children die with it."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


class _Call:
    """One child seen from outside: its answers, its output, and how it ended."""

    def __init__(self, on_message: Callable[[Json], None] | None, cancelled: Flag | None) -> None:
        self._on_message, self._cancelled = on_message, cancelled
        with ExitStack() as made:  # all of them or none
            self._answers, answers = map(made.enter_context, socket.socketpair())
            self._status, status = map(made.enter_context, socket.socketpair())
            self._output, output = os.pipe()
            made.pop_all()
        self._theirs: list[socket.socket | int] = [answers, status, output]
        self._tail = b""
        self._reader = FrameReader()
        self._final: dict[str, Json] | None = None
        self.got_messages, self._heard = False, 0.0

    def __enter__(self) -> _Call:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_theirs()
        # Closing the status socket is what tells the nursery to kill a child that still runs.
        for end in (self._answers, self._status):
            end.close()
        os.close(self._output)

    @property
    def child_ends(self) -> list[int]:
        """The descriptors for the child: answers, status (kept by the nursery), output."""
        return [end if isinstance(end, int) else end.fileno() for end in self._theirs]

    @property
    def stderr(self) -> str:
        """The end of what the child printed."""
        return self._tail.decode(errors="replace").strip()

    def run(self, request: bytes, timeout_s: float, silence_s: float | None) -> Json:
        """Send the request, and follow the child until it has ended."""
        self._close_theirs()
        deadline = time.monotonic() + timeout_s
        self._heard = time.monotonic()
        status = b""
        unsent = memoryview(request)
        self._answers.setblocking(False)
        with selectors.DefaultSelector() as selector:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            selector.register(self._answers, both)
            selector.register(self._status, selectors.EVENT_READ)
            selector.register(self._output, selectors.EVENT_READ)
            while True:
                ready = {
                    key.fileobj: events for key, events in selector.select(self._wait_s(deadline, silence_s))
                }
                if self._output in ready and not self._read_output():
                    selector.unregister(self._output)
                events = ready.get(self._answers, 0)
                if events & selectors.EVENT_WRITE:
                    unsent = self._write(unsent)
                    if not unsent:
                        selector.modify(self._answers, selectors.EVENT_READ)
                if events & selectors.EVENT_READ and not self._read_answers():
                    selector.unregister(self._answers)
                if self._status in ready:
                    status = self._status.recv(16)
                    break
        if not status:
            raise _NurseryDied
        self._drain()
        return self._result(int(status))

    def _wait_s(self, deadline: float, silence_s: float | None) -> float:
        if silence_s is not None:
            deadline = min(deadline, self._heard + silence_s)
        left = deadline - time.monotonic()
        if self._cancelled is not None and self._cancelled.is_set():
            raise ChildCancelled("cancelled")
        if left <= 0:
            raise ChildTimeout("the deadline passed")
        return left if self._cancelled is None else min(left, _CANCEL_POLL_S)

    def _write(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[self._answers.send(unsent) :]
        except BlockingIOError:
            return unsent
        except OSError:  # The child is gone; its status says why.
            return unsent[:0]

    def _read_answers(self) -> bool:
        try:
            data = self._answers.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        try:
            answers = list(self._reader.feed(data))
        except ValueError as error:
            raise ChildCrashed(f"sent a damaged answer: {error}", None, self.stderr) from None
        for answer in answers:
            if "message" not in answer:
                self._final = answer
            elif self._on_message is not None:
                self.got_messages, self._heard = True, time.monotonic()
                self._on_message(answer["message"])
        return bool(data)

    def _read_output(self) -> bool:
        data = os.read(self._output, _READ_BYTES)
        self._tail = (self._tail + data)[-STDERR_BYTES:]
        return bool(data)

    def _drain(self) -> None:
        """Read what a child left behind that has ended."""
        while self._read_answers() and not self._final:
            pass
        os.set_blocking(self._output, False)
        try:
            while self._read_output():
                pass
        except BlockingIOError:
            pass

    def _result(self, status: int) -> Json:
        if self._final is not None and "result" in self._final:
            return self._final["result"]
        if self._final is not None and "raised" in self._final:
            type_name, message = self._final["raised"]
            raise ChildRaised(type_name, message, self.stderr)
        if os.WIFSIGNALED(status):
            signal = os.WTERMSIG(status)
            raise ChildCrashed(f"killed by signal {signal}", signal, self.stderr)
        raise ChildCrashed(f"exited with {os.WEXITSTATUS(status)} and no result", None, self.stderr)

    def _close_theirs(self) -> None:
        for end in self._theirs:
            if isinstance(end, int):
                os.close(end)
            else:
                end.close()
        self._theirs = []
