"""Many readers of one event stream in one process: ``python -m bench.watchers URL COUNT [CPU,CPU...]``.

They read until the server has ended all streams, or until standard input is closed. A line says when all of
them had something, another one, in JSON, what they saw (``Seen``). It imports nothing but the standard
library and is as cheap as a reader can be: people watch from other machines.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import socket
import sys
import time
from bisect import bisect_left
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import IO
from urllib.parse import urlsplit

POLL_S = 0.05
"""How long arrivals are gathered: waking for each would take more than reading. Latencies contain it."""
RECENT_S = 2.0
"""What was published so shortly before the readers stopped need not have come to all of them."""
_EVENT = re.compile(rb"event: (\w+)\n(?:data: .*\n)*id: (\d+)\n\n")
_Events = tuple[tuple[bytes, int], ...]


@dataclass(frozen=True)
class Seen:
    """What the readers of a stream saw, and what they took."""

    streams: int
    whole: int
    """Those that had every event that any stream had since their own first, each once and in order.

    Streams begin with what the server still keeps, so one that was opened later may begin later."""
    ended: int
    """Those that had the job's end."""
    events: int
    """Different ones."""
    size: int
    """Bytes of all streams."""
    median_s: float
    p99_s: float
    worst_s: float
    """From an event's publication to its reading, of those published while all streams were open."""
    cpu_s: float


@dataclass
class _Reader:
    socket: socket.socket
    rest: bytes = b""
    bursts: list[_Events] = field(default_factory=list)


def watch(url: str, count: int, stop: IO[str] | None = None) -> Seen:
    """Open so many streams and read them, see above; ``stop`` is the file whose end ends that.

    Ids are the microseconds of their publication, by the clock of the machine that both run on.
    Raises OSError when the server cannot be reached.
    """
    began = time.process_time()
    readers, size, opened, latencies = [_open(url) for _ in range(count)], 0, 0, []
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader.socket, selectors.EVENT_READ, reader)
        if stop is not None:
            selector.register(stop, selectors.EVENT_READ)
        silent = count
        stopped = False
        while not stopped and len(selector.get_map()) > (stop is not None):
            time.sleep(POLL_S)
            for key, _ in selector.select():
                reader = key.data
                if reader is None:
                    stopped = True
                    continue
                received = _receive(reader.socket)
                size += len(received)
                burst = _take(reader, received)
                latencies += [_now() - id_ for _, id_ in burst if opened and id_ > opened]
                silent -= burst != () and len(reader.bursts) == 1
                if silent == 0 and not opened:
                    opened = _now()
                    print("open", flush=True)
                if not received:
                    selector.unregister(reader.socket)
    for reader in readers:
        reader.socket.close()
    until = _now() - round(RECENT_S * 1e6) if stopped else _now()
    ids = [[id_ for burst in reader.bursts for _, id_ in burst if id_ <= until] for reader in readers]
    known = sorted({id_ for each in ids for id_ in each})
    late = sorted(latencies) or [0]
    return Seen(
        streams=count,
        whole=sum(each == known[bisect_left(known, each[0]) :] for each in ids if each),
        ended=sum(any(name == b"end" for burst in each.bursts for name, _ in burst) for each in readers),
        events=len(known),
        size=size,
        median_s=late[len(late) // 2] / 1e6,
        p99_s=late[len(late) * 99 // 100] / 1e6,
        worst_s=late[-1] / 1e6,
        cpu_s=time.process_time() - began,
    )


def _open(url: str) -> _Reader:
    parts = urlsplit(url)
    reader = _Reader(socket.create_connection((parts.hostname, parts.port or 80)))
    lines = (f"GET {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close", "", "")
    reader.socket.sendall("\r\n".join(lines).encode())
    reader.socket.setblocking(False)
    return reader


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(1 << 18)
    except OSError:
        return b""


def _take(reader: _Reader, received: bytes) -> _Events:
    """The events that are complete with what was received; kept with the reader, too."""
    text = reader.rest + received
    cut = text.rfind(b"\n\n") + 2 if b"\n\n" in text else 0
    # The end of an HTTP chunk is left before the next event, where it is passed over.
    reader.rest = text[cut:]
    burst = _events(text[:cut].lstrip(b"\r\n"))
    if burst:
        reader.bursts.append(burst)
    return burst


@lru_cache(64)
def _events(text: bytes) -> _Events:
    """(name, id) of each event. Streams carry the same pieces, so nearly every call is a look-up."""
    return tuple((name, int(id_)) for name, id_ in _EVENT.findall(text))


def _now() -> int:
    return time.time_ns() // 1000


if __name__ == "__main__":
    if len(sys.argv) > 3:
        os.sched_setaffinity(0, [int(cpu) for cpu in sys.argv[3].split(",")])
    os.nice(19)
    print(json.dumps(asdict(watch(sys.argv[1], int(sys.argv[2]), sys.stdin))))
