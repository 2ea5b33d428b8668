"""Server-Sent Events on the wire: a subscriber gets each burst in one piece, and no client all streams."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
from fastapi.responses import StreamingResponse
from starlette.requests import Request
from starlette.types import Send

from server.events.base import Event

_PING = b": ping\n\n"


class Streams:
    """The streams that are open, at most ``most`` and ``each`` of one client (by its address).

    A stream has no end of its own. Beyond the bound the oldest one of the client that has the most ends:
    its reader connects again, as after any other break, and goes on behind the last event that it saw.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most, self._each = most, each
        self._open: dict[str, dict[EventStream, None]] = {}

    def answer(self, request: Request, bursts: AsyncIterator[list[Event]]) -> EventStream:
        """An answer that sends the bursts until there are no more; an empty burst is sent as a comment."""
        return EventStream(self, request.client.host if request.client else "", bursts)

    def enter(self, stream: EventStream) -> None:
        """Take a stream in, in the place of another if need be."""
        mine = self._open.setdefault(stream.address, {})
        mine[stream] = None
        if len(mine) > self._each:
            self._end_oldest(mine)
        elif sum(map(len, self._open.values())) > self._most:
            self._end_oldest(max(self._open.values(), key=len))

    def leave(self, stream: EventStream) -> None:
        """Take note that a stream has ended."""
        mine = self._open.get(stream.address, {})
        mine.pop(stream, None)
        if not mine:
            self._open.pop(stream.address, None)

    def _end_oldest(self, streams: dict[EventStream, None]) -> None:
        oldest = next(iter(streams))
        del streams[oldest]
        oldest.scope.cancel()


class EventStream(StreamingResponse):
    """One stream. It counts from when its answer begins to when that is over."""

    def __init__(self, streams: Streams, address: str, bursts: AsyncIterator[list[Event]]) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # proxies must not hold it back
        super().__init__(pieces(bursts), media_type="text/event-stream", headers=headers)
        self.address = address
        self._streams = streams
        self.scope = anyio.CancelScope()

    async def stream_response(self, send: Send) -> None:
        """Send it; one that gives way to another ends like any whole answer."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        with self.scope:
            self._streams.enter(self)
            try:
                async for piece in self.body_iterator:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            finally:
                self._streams.leave(self)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def pieces(bursts: AsyncIterator[list[Event]]) -> AsyncIterator[bytes]:
    """Bursts as bytes."""
    async for burst in bursts:
        yield b"".join(event.wire for event in burst) or _PING
