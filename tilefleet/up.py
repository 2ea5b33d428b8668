"""Running the service: one server a state folder, found by other commands through a file in it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from server.app import create_app
from server.http.door import Door, room
from server.http.problems import Problem
from tilefleet.configuration import read_settings
from tilefleet.errors import TilefleetError
from tilefleet.own_log import keep_small
from tilefleet.state_lock import only_one
from worker.descriptors import raise_limit
from worker.phases import phases


class _Server(uvicorn.Server):
    """Calls back once it answers, and says when it ends."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._app, self._started = app, started
        self._terminal = _has_terminal()
        self._reloads: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call back, unless the application did not come up."""
        await super().startup(sockets)
        if not self.should_exit:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)
            self._started()

    def _hang_up(self) -> None:
        """Read the fleet file again; where the signal says that the terminal is gone, end."""
        if self._terminal and not _has_terminal():
            self.handle_exit(signal.SIGTERM, None)
            return
        reload = asyncio.ensure_future(self._reload())
        self._reloads.add(reload)
        reload.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        try:
            change = await self._app.state.services.fleet.reload()
        except Problem as problem:
            phases.info("%s", problem.detail)
            return
        told = [f"{what}: {', '.join(boards)}" for what, boards in change.model_dump().items() if boards]
        phases.info("the fleet file was read again; %s", "; ".join(told) or "nothing has changed")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take note of a signal. A start that is under way ends first, which may take a minute."""
        if not self.started and not self.should_exit:
            phases.info("stopping once what is being started is there")
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; what runs is ended first, which takes seconds."""
        phases.info("stopping; jobs that run go on after the next start")
        # What ends first breaks off in the middle of a word to what ends next.
        logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
        await super().shutdown(sockets)


def up(
    host: str,
    port: int,
    boards: str | None,
    fleet: Path | None,
    on_started: Callable[[str], None],
    on_warning: Callable[[str], None],
) -> None:
    """Run coordinator, engine and boards until interrupted; ``on_started`` gets the URL, ``on_warning`` what
    the operator should know of ``host``. Port 0 is any.

    ``boards`` and ``fleet`` are as in ``read_settings``.

    Raises TilefleetError when the state folder or the port is taken, or the application does not come up.
    """
    settings = read_settings(boards, fleet)
    phases.info("starting, with the state in %s", settings.home_dir)
    # Dask tells of every worker that comes and goes, and of every task cut off at the end.
    logging.getLogger("distributed").setLevel(logging.ERROR)
    home = settings.home_dir
    settings.keep_private()
    if warned := reached_by_others(host):
        on_warning(warned)
    with only_one(home), _listen(host, port) as listener:
        url = _url(listener)
        url_file = home / "url"

        def started() -> None:
            # Whole or not at all: others wait for this file and read it at once.
            fresh = home / "url.new"
            fresh.write_text(url + "\n")
            fresh.replace(url_file)
            on_started(url)

        connections = room(raise_limit())
        app, door = create_app(settings, connections=connections), Door(connections)
        keep_small(home / "up.log")
        server = _Server(door.config(app, grace_s=5), app, started)
        failure = _StartFailure()
        logging.getLogger("uvicorn.error").addFilter(failure)
        # uvicorn shuts down on either signal and raises it again afterwards, when the file is still there.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if not _has_terminal():  # whose end is a reason to end; another's wish to reload is none
            signal.signal(signal.SIGHUP, lambda *_: None)
        try:
            # The exit is uvicorn's way to say that it did not start.
            with suppress(KeyboardInterrupt, SystemExit):
                server.run(sockets=[listener])
        finally:
            url_file.unlink(missing_ok=True)
        if not server.started:
            raise TilefleetError(f"the server did not start: {failure.reason}")


def reached_by_others(host: str) -> str:
    """Says what it means to listen on ``host``; empty for this machine alone."""
    try:
        if ip_address(host).is_loopback:
            return ""
    except ValueError:  # a name
        if host == "localhost":
            return ""
    return (
        f"warning: whoever reaches {host} can have code compiled and run on this machine and its boards, "
        "read all models, and cancel or delete anything: there are no users and no passwords, and the Host "
        "check keeps nobody out. Put a proxy that knows your users in front, or listen on 127.0.0.1 and "
        "reach it by ssh -L (docs/operations.md)"
    )


def _has_terminal() -> bool:
    """Whether this process belongs to a terminal that is there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


class _StartFailure(logging.Filter):
    """Keeps the reason of a failed start, which uvicorn logs as a traceback, and the traceback to itself."""

    reason = "its log says why"

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass everything on but a traceback and what uvicorn says after it."""
        message = record.getMessage().strip()
        if message.startswith("Traceback"):
            # The line "module.Error: what it says"; more of the message may follow it.
            reason = re.findall(r"^[\w.]+: .+", message, re.MULTILINE)[-1]
            # Our own errors say all in their message; of others the class may be half of it.
            self.reason = re.sub(r"^(server|tuner|worker|kernels)\.[\w.]+: ", "", reason)
            return False
        return "startup failed" not in message


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise TilefleetError(
            f"cannot listen on {host} port {port}: {reason}; choose another with --port"
        ) from None
    # Connections have it from here: asyncio sets it only where a socket says that it is TCP, and without it
    # an answer's body waits 40 ms for the client to acknowledge its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
