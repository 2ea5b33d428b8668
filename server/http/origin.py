"""Keeps pages of other sites from reading or changing anything through a visitor's browser."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.http.problems import body_of

_SAFE = ("GET", "HEAD", "OPTIONS")


_OF_THE_API = ("/api/", "/health/", "/version/", "/metrics/", "/openapi.json/")


class SameOrigin:
    """Refuses what pages of others ask for through a visitor's browser, which alone sends these headers.

    From another site (``Sec-Fetch-Site``, or an ``Origin`` that is another than the host asked) there are
    ways to pages of ours, and nothing else.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it with 403."""
        refused = _why_not(scope, Headers(scope=scope)) if scope["type"] == "http" else None
        if refused is not None:
            await body_of(scope["path"], 403, refused)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def _why_not(scope: Scope, headers: Headers) -> str | None:
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site")
    foreign = site not in (None, "none", "same-origin")
    # A browser that is too old for the one header, or asks over plain HTTP, says the other alone.
    foreign = foreign or (origin is not None and _place(origin) != headers.get("host"))
    if not foreign:
        return None
    leads = headers.get("sec-fetch-mode", "navigate") == "navigate"
    if scope["method"] in _SAFE and leads and not f"{scope['path']}/".startswith(_OF_THE_API):
        return None
    return "a page of another site may lead to the pages here, and ask for nothing else"


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # [::1 without its end
        return ""


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
