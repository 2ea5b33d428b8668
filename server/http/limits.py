"""Bounds on request bodies, kept before anything reads them."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers
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
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy in front may go by the other one, and take what is left over for a request.
            detail = "Content-Length and Transfer-Encoding are not taken together"
            await body_of(scope["path"], 400, detail, headers={"Connection": "close"})(scope, receive, send)
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
