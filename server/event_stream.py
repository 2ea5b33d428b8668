"""Server-Sent Events on the wire: a subscriber gets what has come in one piece, a few times a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse

from server.events import Event

FLUSH_S = 0.4
"""How long what comes is gathered after a piece was sent: hundreds may watch, and sending is what they cost.
What comes after a pause is sent at once."""
_PING = b": ping\n\n"


def event_stream(bursts: AsyncIterator[list[Event]]) -> StreamingResponse:
    """An answer that sends the bursts until there are no more; an empty burst is sent as a comment."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # proxies must not hold it back
    return StreamingResponse(_pieces(bursts), media_type="text/event-stream", headers=headers)


async def _pieces(bursts: AsyncIterator[list[Event]]) -> AsyncIterator[bytes]:
    async for burst in bursts:
        yield b"".join(event.wire for event in burst) or _PING
        await asyncio.sleep(FLUSH_S)
