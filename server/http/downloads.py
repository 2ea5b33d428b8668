"""Files that are made while they are sent: in turns, off the event loop, and no further once nobody waits."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import Send

from server.http.turns import Turns

PIECE_S = 0.05
"""How long a turn at a file takes, about."""


class Download(StreamingResponse):
    """A file called ``name`` of lines, made in ``turns``; between them its client may read as slow as it is.

    What fails before the first piece is there is answered with a problem.
    """

    def __init__(
        self, request: Request, turns: Turns, lines: Iterator[str], media_type: str, name: str
    ) -> None:
        self._made = _pieces(request, turns, lines)
        super().__init__(
            self._made,
            media_type=media_type,
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    async def stream_response(self, send: Send) -> None:
        """Send it, once its first piece is there."""
        first = await anext(self._made)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": first, "more_body": True})
        async for piece in self._made:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class WholeDownload(Download):
    """One that is kept in memory until it is sent, in one of the turns at that (``kept``)."""

    def __init__(
        self,
        request: Request,
        turns: Turns,
        lines: Iterator[str],
        media_type: str,
        name: str,
        kept: Turns,
    ) -> None:
        super().__init__(request, turns, lines, media_type, name)
        self._request, self._kept = request, kept

    async def stream_response(self, send: Send) -> None:
        """Send it, once all of it is there."""
        async with self._kept.part(self._request):
            whole = b"".join([piece async for piece in self._made])
            headers = [*self.raw_headers, (b"content-length", str(len(whole)).encode())]
            await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
            await send({"type": "http.response.body", "body": whole, "more_body": True})
            # Only this waits until the client has read.
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _pieces(request: Request, turns: Turns, lines: Iterator[str]) -> AsyncIterator[bytes]:
    begun = over = False
    while not over:
        async with turns.part(request, begun=begun):
            piece, over = await run_in_threadpool(_piece, lines)
        begun = True
        yield piece


def _piece(lines: Iterator[str]) -> tuple[bytes, bool]:
    """The lines that are made within ``PIECE_S``, and whether they are the last ones."""
    until, found = time.monotonic() + PIECE_S, []
    for line in lines:
        found.append(line)
        if time.monotonic() >= until:
            return "".join(found).encode(), False
    return "".join(found).encode(), True
