"""Keeps pages of other sites from reading or changing anything through a visitor's browser."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.http.problems import body_of

_SAFE = ("GET", "HEAD", "OPTIONS")


class SameOrigin:
    """Refuses changing requests whose ``Origin`` is another than the host asked: only browsers send one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it with 403."""
        if scope["type"] == "http" and scope["method"] not in _SAFE:
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            if origin is not None and urlsplit(origin).netloc != headers.get("host"):
                detail = f"a page of {origin} may not change anything here"
                await body_of(scope["path"], 403, detail)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class KnownHosts:
    """Answers only for ``hosts``, or for any with ``*`` among them: the defence against DNS rebinding."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app = app
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it with 400."""
        if scope["type"] == "http" and "*" not in self.hosts:
            header = Headers(scope=scope).get("host", "")
            host = re.sub(r":\d+$", "", header.lower())
            if host not in self.hosts:
                detail = f"the host {host!r} is not answered for: add it to TILEFLEET_ALLOWED_HOSTS"
                await body_of(scope["path"], 400, detail)(scope, receive, send)
                return
        await self.app(scope, receive, send)
