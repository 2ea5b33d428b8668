"""Bounds on request bodies, kept before anything reads them, and on how many requests wait for their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.http.problems import Problem, body_of

JSON_BYTES = 1 << 20


class BodyLimit:
    """Refuses bodies above the limit of their path with 413, by their declared and by their real length.

    Args:
        app: the application behind.
        limits: path -> (bytes, the setting's name); every other path takes ``JSON_BYTES``.
    """

    def __init__(self, app: ASGIApp, limits: Mapping[str, tuple[int, str]]) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body counted."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit, setting = self.limits.get(scope["path"].rstrip("/"), (JSON_BYTES, ""))
        headers = Headers(scope=scope)
        coding = headers.get("content-encoding", "identity")
        if coding != "identity":
            detail = f"Content-Encoding {coding!r} is not taken: send the body as it is"
            await body_of(scope["path"], 415, detail)(scope, receive, send)
            return
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared) > limit:
            problem = too_large(limit, setting)
            await body_of(scope["path"], 413, problem.detail)(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise too_large(limit, setting)
            return message

        await self.app(scope, counted, send)


def too_large(limit: int, setting: str = "") -> Problem:
    """The problem that names the limit, and the setting that moves it."""
    text = f"{limit >> 20} MB" + (f" ({setting})" if setting else "")
    return Problem(413, f"the body is larger than the limit of {text}")


class Turns:
    """Lets one request after the other do something heavy, or a few ``at_once``; whoever finds ``most``
    others ``waiting`` gets 503. Who waits holds no thread."""

    def __init__(self, most: int, at_once: int = 1) -> None:
        self._most, self._free = most, asyncio.Semaphore(at_once)
        self.waiting = 0

    @asynccontextmanager
    async def turn(self, request: Request | None = None) -> AsyncIterator[None]:
        """Wait for a turn and have it, unless the one who sent ``request`` has gone by then."""
        if self.waiting >= self._most:
            raise Problem(503, f"{self._most} other requests wait for this already; try again later")
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        try:
            if request is not None and await request.is_disconnected():
                raise Problem(400, "the connection broke while the request waited for its turn")
            yield
        finally:
            self._free.release()
