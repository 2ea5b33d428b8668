"""Who may stay connected: bounds in all and for each address, and time for a request's head and body.

A browser behind a tunnel or a proxy has the address of that, so what one address may have is most of it all.
Where there is no room, who keeps the server waiting goes first, the oldest of them, then whose body comes
slowest; who is being answered stays.
"""

from __future__ import annotations

import asyncio
import json
import logging
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from server.http.problems import MEDIA_TYPE, ProblemBody

log = logging.getLogger(__name__)
MOST, LEAST = 4096, 64
HEAD_S, BODY_S, BODY_BYTES_S, UNREAD_S = 15.0, 20.0, 1024, 60.0
"""Seconds for a request's head; for its body, and how fast that must come where it takes longer; seconds in
which the one who asked reads nothing of an answer, beside the time that its rest takes at that speed."""
SETTLE_S = 2.0
"""How old a body is before it can be said that it comes slowly."""
SWEEP_S, TELL_S, AGAIN_S = 1.0, 60.0, 0.2


class _Stage(Enum):
    HEAD = auto()
    BODY = auto()
    ANSWER = auto()
    REST = auto()
    """All is said or the end has come, but not all has been read."""


def room(descriptors: int) -> int:
    """How many connections may be open: half of a process's ``descriptors`` are left to all else in it."""
    return max(LEAST, min(MOST, descriptors // 2))


class Door:
    """The connections of one server, at most ``most``, and three quarters of that of one address."""

    def __init__(self, most: int) -> None:
        self.most, self.each = most, most * 3 // 4
        self._inside: dict[str, dict[Visitor, None]] = {}
        self._turned_away, self._told, self._look_again = 0, -TELL_S, 0.0
        self._sweeping = False

    def config(self, app: Any, grace_s: int) -> uvicorn.Config:
        """A server of ``app`` behind this door, which gives open connections ``grace_s`` seconds at its end.

        The client's address is that of its connection. A header could name any address.
        """
        return uvicorn.Config(
            app,
            log_level="warning",
            http=type("Visitor", (Visitor,), {"door": self}),
            ws="none",
            proxy_headers=False,
            timeout_graceful_shutdown=grace_s,
        )

    def enter(self, visitor: Visitor) -> None:
        """Let a new connection in, in the place of another if need be; else it is refused."""
        mine = self._inside.setdefault(visitor.address, {})
        room = len(mine) < self.each or self._let_go(mine)
        if room and self._count() >= self.most:
            room = self._let_go_of_any()
        if room:
            mine[visitor] = None
        else:
            self._turned_away += 1
            visitor.refuse(503, "too many connections are open; try again later", {"Retry-After": "5"})
        self._forget(visitor.address)
        if not self._sweeping:
            self._sweeping = True
            self._sweep_later()

    def leave(self, visitor: Visitor) -> None:
        """Take note that a connection has ended."""
        self._inside.get(visitor.address, {}).pop(visitor, None)
        self._forget(visitor.address)

    def _count(self) -> int:
        return sum(map(len, self._inside.values()))

    def _forget(self, address: str) -> None:
        if not self._inside.get(address, True):
            del self._inside[address]

    def _let_go(self, some: dict[Visitor, None]) -> bool:
        """End the oldest that keeps the server waiting; False where none does."""
        for visitor in some:
            if visitor.stalls:
                self._turned_away += 1
                del some[visitor]
                visitor.drop()
                return True
        return False

    def _let_go_of_any(self) -> bool:
        """End the oldest that keeps the server waiting of the address that has the most, and where there is
        none the slowest body; False where all are answered."""
        now = asyncio.get_running_loop().time()
        if now < self._look_again:
            return False
        if any(map(self._let_go, sorted(self._inside.values(), key=len, reverse=True))):
            return True
        bodies = [(each.speed, some, each) for some in self._inside.values() for each in some if each.uploads]
        if bodies:
            _, some, slowest = min(bodies, key=lambda body: body[0])
            self._turned_away += 1
            del some[slowest]
            slowest.drop()
            return True
        self._look_again = now + AGAIN_S  # a flood shall not have all looked at for each of it
        return False

    def _sweep_later(self) -> None:
        asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        for visitors in [*self._inside.values()]:
            for visitor in [*visitors]:
                visitor.end_if_late()
        now = asyncio.get_running_loop().time()
        if self._turned_away and now - self._told >= TELL_S:
            log.warning(
                "%d connections were refused or closed for want of room: %d are open from %d addresses",
                self._turned_away,
                self._count(),
                len(self._inside),
            )
            self._turned_away, self._told = 0, now
        self._sweeping = bool(self._inside) or bool(self._turned_away)
        if self._sweeping:
            self._sweep_later()


class Visitor(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # whichever of uvicorn's two there is
    """A connection that is watched by its ``door``."""

    door: Door

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Enter."""
        super().connection_made(transport)
        self.address: str = self.client[0] if self.client else ""
        self._stage, self._since, self._came, self._rest = _Stage.HEAD, self.loop.time(), 0, 0
        self._unread_since: float | None = None
        self._spoke = False
        self.door.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave."""
        self.door.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came of a head or a body."""
        self._came += len(data)
        self._spoke = True
        if not self.transport.is_closing():
            super().data_received(data)
            self._look()

    def pause_writing(self) -> None:
        """The client reads slower than it is written to."""
        self._unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client has read."""
        self._unread_since = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """What uvicorn calls for what is no HTTP: a problem as for all else."""
        self.refuse(400, msg)

    @property
    def stalls(self) -> bool:
        """Whether the server waits for it rather than the other way round."""
        stage, age_s = self._look(), self.loop.time() - self._since
        if stage is _Stage.HEAD:
            return True
        if stage is _Stage.BODY:
            return age_s > SETTLE_S and self._came < age_s * BODY_BYTES_S and not self.flow.read_paused
        if stage is _Stage.REST:
            return bool(age_s > SETTLE_S)
        return self._unread_since is not None and self.loop.time() - self._unread_since > SETTLE_S

    @property
    def uploads(self) -> bool:
        """Whether a body comes, and for long enough to say how fast."""
        comes = self._look() is _Stage.BODY and not self.flow.read_paused
        return bool(comes and self.loop.time() - self._since > SETTLE_S)

    @property
    def speed(self) -> float:
        """Bytes a second of what comes."""
        return float(self._came / max(1e-3, self.loop.time() - self._since))

    def end_if_late(self) -> None:
        """End it when its time is over."""
        stage, now = self._look(), self.loop.time()
        if stage is _Stage.HEAD and now - self._since > HEAD_S:
            self.drop()
        elif stage is _Stage.BODY:
            if self.flow.read_paused:  # it is the server that is slow
                self._since += SWEEP_S
            elif now - self._since > BODY_S + self._came / BODY_BYTES_S:
                self.drop()
        elif stage is _Stage.REST:
            if now - self._since > UNREAD_S + self._rest / BODY_BYTES_S:
                self.transport.abort()
        elif self._unread_since is not None and now - self._unread_since > UNREAD_S:
            self.transport.abort()

    def drop(self) -> None:
        """End it; who has sent a part of a request is told why."""
        if self._look() in (_Stage.ANSWER, _Stage.REST) or (self.cycle is not None and self._answering()):
            self.transport.abort()
        elif self._spoke:
            self.refuse(408, "the request did not come in time")
        else:
            self.transport.close()

    def refuse(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        """Answer with a problem body in the place of all else, and end the connection."""
        title = HTTPStatus(status).phrase
        problem = ProblemBody(title=title, status=status, detail=detail, instance="")
        body = json.dumps(problem.model_dump()).encode()
        lines = {"Content-Type": MEDIA_TYPE, "Content-Length": len(body), "Connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in {**lines, **(headers or {})}.items())
        self.transport.write(f"HTTP/1.1 {status} {title}\r\n{head}\r\n".encode() + body)
        self.transport.close()
        if self.transport.get_write_buffer_size():  # who reads nothing of that either
            self.loop.call_later(SETTLE_S, self.transport.abort)

    def _answering(self) -> bool:
        """Whether a part of an answer may have been sent."""
        return bool(self.cycle.response_started and not self.cycle.response_complete)

    def _look(self) -> _Stage:
        cycle: Any = self.cycle
        unread = self.transport.get_write_buffer_size()
        if unread and (self.transport.is_closing() or cycle is None or cycle.response_complete):
            stage = _Stage.REST
        elif cycle is None or cycle.response_complete:
            stage = _Stage.HEAD
        else:
            stage = _Stage.BODY if cycle.more_body else _Stage.ANSWER
        if stage is not self._stage:
            self._stage, self._since, self._came, self._rest = stage, self.loop.time(), 0, unread
            self._spoke = stage is not _Stage.HEAD
        return stage
