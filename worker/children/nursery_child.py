"""The nursery's process: imports, then forks a child a request. Started by ``worker.children.nursery`` alone.

Arguments: the control socket's descriptor, the cores to use (JSON, none for all), and the modules to import.
Single-threaded on purpose: only then is a fork safe.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from worker.children.frames import FrameReader, frame

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_MESSAGE_CHARACTERS = 4000


@dataclass
class _Child:
    pid: int
    pidfd: int
    status: socket.socket


def main(arguments: list[str]) -> None:
    """Serve until the control socket is closed."""
    control = socket.socket(fileno=int(arguments[0]))
    control.set_inheritable(False)
    if cpus := json.loads(arguments[1]):
        os.sched_setaffinity(0, cpus)
    for module in arguments[2:]:
        importlib.import_module(module)
    # What is there now stays for ever: keep the collector from touching, and so copying, its pages.
    gc.collect()
    gc.freeze()
    control.send(b"r")
    _serve(control)


def _serve(control: socket.socket) -> None:
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            child: _Child | None = key.data
            if child is None:
                message, fds, _, _ = socket.recv_fds(control, 1, 3)
                if not message:
                    return  # The owner is gone; PDEATHSIG takes the children along.
                _fork(selector, control, fds)
            elif key.fileobj == child.pidfd:
                _reap(selector, child)
            else:  # The owner hung up: it no longer wants the answer.
                _kill(child)
                selector.unregister(child.status)


def _fork(selector: selectors.BaseSelector, control: socket.socket, fds: list[int]) -> None:
    answers, status, output = fds
    nursery = os.getpid()
    pid = os.fork()
    if pid == 0:
        # No child holds what belongs to the nursery and the other children.
        for fd in [status, *(key.fd for key in selector.get_map().values())]:
            os.close(fd)
        selector.close()
        _child(nursery, socket.socket(fileno=answers), output)
    os.close(answers)
    os.close(output)
    child = _Child(pid, os.pidfd_open(pid), socket.socket(fileno=status))
    selector.register(child.pidfd, selectors.EVENT_READ, child)
    selector.register(child.status, selectors.EVENT_READ, child)


def _kill(child: _Child) -> None:
    for kill in (os.killpg, os.kill):  # The group is there only once the child has made it.
        try:
            kill(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _reap(selector: selectors.BaseSelector, child: _Child) -> None:
    _kill(child)  # The group's other members; the child itself is a zombie, so its id is still its own.
    _, status = os.waitpid(child.pid, 0)
    selector.unregister(child.pidfd)
    os.close(child.pidfd)
    try:
        selector.unregister(child.status)
        child.status.send(str(status).encode())
    except (KeyError, OSError):
        pass  # The owner hung up before.
    child.status.close()


def _child(nursery: int, answers: socket.socket, output: int) -> NoReturn:
    try:
        os.setsid()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != nursery:
            os._exit(1)
        for standard in (1, 2):
            os.dup2(output, standard)
        os.close(output)
        answers.sendall(_answer(answers))
    finally:
        os._exit(0)


def _answer(answers: socket.socket) -> bytes:
    """Do what the owner asks for; the final frame."""
    try:
        request = _receive(answers)
        if request["cpus"]:
            os.sched_setaffinity(0, request["cpus"])
        if request["memory_bytes"] is not None:
            limit = _private_bytes() + int(request["memory_bytes"])
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        module, _, name = request["function"].partition(":")
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)

        def send(message: Any) -> None:
            answers.sendall(frame({"message": message}))

        arguments = [request["payload"]] + [send] * request["messages"]
        return frame({"result": function(*arguments)})
    except BaseException as error:
        return frame({"raised": [type(error).__name__, str(error)[:_MESSAGE_CHARACTERS]]})


def _receive(answers: socket.socket) -> Any:
    reader = FrameReader()
    while data := answers.recv(256 * 1024):
        for request in reader.feed(data):
            return request
    os._exit(1)  # The owner is gone.


def _private_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmData:")) * 1024


if __name__ == "__main__":
    main(sys.argv[1:])
