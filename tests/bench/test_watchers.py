"""The readers of the dashboard's bench, and what is made of its windows."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.watched import Window, crowd, summary
from bench.watchers import RECENT_S, watch


def event(id_: int, name: str = "trial") -> bytes:
    return f'event: {name}\ndata: {{"number": {id_}}}\nid: {id_}\n\n'.encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@contextmanager
def serving(*streams: list[bytes], hold: threading.Event | None = None) -> Iterator[str]:
    """A server whose connections get these pieces, one connection a stream, each ended when all were sent."""

    def serve() -> None:
        connections = [listener.accept()[0] for _ in streams]
        for connection, pieces in zip(connections, streams, strict=True):
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.06)  # pieces are read one by one
        if hold is not None:
            hold.wait(20)
        for connection in connections:
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/events"
        finally:
            server.join(30)


def test_a_stream_with_a_gap_or_out_of_order_is_not_whole() -> None:
    burst = chunk(event(2) + event(3))
    whole = [chunk(event(1)), burst[:20], burst[20:], chunk(event(4, "end")) + chunk(b"")]
    gap = [chunk(event(1)), chunk(event(3)), chunk(event(4, "end"))]
    swapped = [chunk(event(1) + event(3) + event(2)), chunk(event(4, "end"))]
    twice = [chunk(event(1)), burst, burst, chunk(event(4, "end"))]
    later = [burst, chunk(event(4, "end")) + chunk(b"")]
    with serving(whole, gap, swapped, twice, later, whole) as url:
        seen = watch(url, 6)
    assert (seen.streams, seen.whole, seen.ended, seen.events) == (6, 3, 6, 4)


def test_readers_stop_and_forgive_what_was_just_published() -> None:
    now = time.time_ns() // 1000
    old = now - round((RECENT_S + 1) * 1e6)
    hold, (read, write) = threading.Event(), os.pipe()
    with serving([chunk(event(old))], [chunk(event(old) + event(now + 10**6))], hold=hold) as url:
        threading.Timer(0.5, os.close, [write]).start()
        with os.fdopen(read) as stop:
            seen = watch(url, 2, stop)
        hold.set()
    assert (seen.whole, seen.ended, seen.events) == (2, 0, 1)


def test_a_crowd_reads_in_a_process_of_its_own() -> None:
    old = time.time_ns() // 1000 - round((RECENT_S + 1) * 1e6)
    both, hold = [chunk(event(old) + event(old + 1))], threading.Event()
    with serving(both, both, hold=hold) as url:
        with crowd(url, 2) as (readers, seen):
            assert readers.is_running()
        hold.set()
    assert (seen["streams"], seen["whole"], seen["events"]) == (2, 2, 2)
    hold.clear()
    lossy = serving(both, [chunk(event(old))], hold=hold)
    with lossy as url, pytest.raises(SystemExit, match="only 1 of 2 streams"), crowd(url, 2):
        hold.set()
    with serving([], []) as url, pytest.raises(SystemExit, match="ended before"), crowd(url, 2):
        pass


def test_pairs_of_windows_are_compared() -> None:
    alone = [Window(10.0, trials, cpu_s, 0.5, 0.0) for trials, cpu_s in ((50, 1.0), (40, 1.2), (50, 1.0))]
    watched = [
        Window(10.0, 45, 1.5, 0.6, 0.2),
        Window(10.0, 40, 1.5, 0.8, 0.1),
        Window(10.0, 40, 1.1, 0.7, 0.1),
    ]
    found = summary(alone, watched)
    assert found["speed"] == pytest.approx(0.8)
    assert (found["p10"], found["p90"]) == pytest.approx((0.8, 1.0))
    assert (found["coordinator_alone"], found["coordinator_added"]) == pytest.approx((0.10, 0.03))
    assert (found["loop_alone"], found["loop_added"]) == pytest.approx((0.05, 0.02))
    assert (found["loop_added_least"], found["loop_added_most"]) == pytest.approx((0.01, 0.03))
    assert found["readers"] == pytest.approx(0.01)
