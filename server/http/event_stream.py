"""Server-Sent Events on the wire: a subscriber gets each burst in one piece."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse

from server.events.base import Event

_PING = b": ping\n\n"


def event_stream(bursts: AsyncIterator[list[Event]]) -> StreamingResponse:
    """An answer that sends the bursts until there are no more; an empty burst is sent as a comment."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # proxies must not hold it back
    return StreamingResponse(_pieces(bursts), media_type="text/event-stream", headers=headers)


async def _pieces(bursts: AsyncIterator[list[Event]]) -> AsyncIterator[bytes]:
    async for burst in bursts:
        yield b"".join(event.wire for event in burst) or _PING
