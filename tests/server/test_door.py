"""Connections that say nothing, half of something, or nothing for long: bounded, and others are answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from server.events.base import BOARDS, EventTimes, LocalEvents
from server.http import door as doors
from server.http.door import Door
from server.http.event_stream import Streams
from server.http.limits import BodyLimit
from tilefleet.own_log import MOST_A_MINUTE, Plain, Sparing

PATIENCE_S = 120.0
ROOM = 16
WHOLE = 32 << 20


def small_app() -> FastAPI:
    """Answers at once, after the whole body, or without end."""
    app = FastAPI()
    app.add_middleware(BodyLimit, limits={})

    @app.get("/quick")
    def quick() -> str:
        return "here"

    @app.get("/who")
    async def who(request: Request) -> str:
        return request.client.host if request.client else ""

    @app.post("/body")
    async def body(request: Request) -> int:
        return len(await request.body())

    @app.get("/long")
    async def long() -> StreamingResponse:
        async def pieces() -> Any:
            while True:
                yield b": ping\n\n"
                await asyncio.sleep(0.2)

        return StreamingResponse(pieces())

    streams, events = Streams(ROOM // 2, ROOM // 2), LocalEvents(EventTimes(idle_s=0.2))

    @app.get("/events")
    async def follow(request: Request) -> StreamingResponse:
        return streams.answer(request, events.follow(BOARDS, None))

    @app.get("/whole")
    def whole() -> Response:
        return Response(bytes(WHOLE))

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def pieces() -> Any:
            while True:
                yield bytes(1 << 16)
                await asyncio.sleep(0)

        return StreamingResponse(pieces())

    return app


@pytest.fixture
def port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(Door(ROOM).config(small_app(), grace_s=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


def sent(port: int, text: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    connection.sendall(text.encode())
    return connection


def said(connection: socket.socket) -> bytes:
    """All until the server closes."""
    found = b""
    while piece := connection.recv(1 << 16):
        found += piece
    return found


def ended(connection: socket.socket) -> bool:
    """Whether the server closes; what it says may be lost with what it had not read yet."""
    with contextlib.suppress(ConnectionResetError):
        said(connection)
    return True


def problem(text: bytes) -> dict[str, Any]:
    head, _, body = text.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head.lower()
    return dict(json.loads(body))


def test_who_says_nothing_makes_room(port: int) -> None:
    silent = [sent(port, text) for text in ["", "GET /quick HTT", "GET /quick HTTP/1.1\r\nHost: a\r\n"] * 20]
    for _ in range(30):
        assert httpx.get(f"http://127.0.0.1:{port}/quick", timeout=PATIENCE_S).json() == "here"
    assert all(ended(each) for each in silent[:3])


def test_slow_bodies_make_room(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "SETTLE_S", 0.0)
    slow = [
        sent(port, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\nab") for _ in range(ROOM)
    ]
    assert httpx.post(f"http://127.0.0.1:{port}/body", content=b"abc", timeout=PATIENCE_S).json() == 3
    assert ended(slow[0])


def test_nobody_has_another_address_by_saying_so(port: int) -> None:
    headers = {"X-Forwarded-For": "10.1.2.3", "Forwarded": "for=10.1.2.3", "X-Real-IP": "10.1.2.3"}
    assert httpx.get(f"http://127.0.0.1:{port}/who", headers=headers).json() == "127.0.0.1"


def from_address(address: str, port: int, text: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), PATIENCE_S, (address, 0))
    connection.sendall(text.encode())
    return connection


def test_slow_bodies_of_any_address_make_room(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another address has more, which are all answered, and where no body is too slow."""
    monkeypatch.setattr(doors, "SETTLE_S", 0.0)
    monkeypatch.setattr(doors, "BODY_BYTES_S", 1)
    stream = "GET /long HTTP/1.1\r\nHost: a\r\n\r\n"
    streams = [from_address("127.0.0.2", port, stream) for _ in range(ROOM * 3 // 4)]
    assert all(each.recv(100).startswith(b"HTTP/1.1 200") for each in streams)
    body = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n"
    fast, *slow = [from_address("127.0.0.3", port, body) for _ in range(4)]
    time.sleep(0.2)
    for each, size in zip((fast, *slow), (50_000, 10, 20, 30), strict=True):
        each.sendall(b"a" * size)
    time.sleep(0.2)
    quick = from_address("127.0.0.1", port, "GET /quick HTTP/1.1\r\nHost: a\r\n\r\n")
    assert quick.recv(100).startswith(b"HTTP/1.1 200")
    assert ended(slow[0])
    fast.sendall(b"a" * (99_999 - 50_000))
    assert fast.recv(100).startswith(b"HTTP/1.1 200")


def test_who_is_being_answered_stays_and_others_are_told(port: int) -> None:
    streams = [sent(port, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(ROOM * 3 // 4)]
    for each in streams:
        assert each.recv(100).startswith(b"HTTP/1.1 200")
    refused = said(sent(port, ""))
    assert problem(refused)["status"] == 503
    assert b"Retry-After" in refused
    for each in streams:
        assert b"ping" in each.recv(1 << 16)
    streams.pop().close()
    deadline = time.monotonic() + PATIENCE_S
    while httpx.get(f"http://127.0.0.1:{port}/quick", timeout=PATIENCE_S).status_code != 200:
        assert time.monotonic() < deadline


def test_streams_without_end_leave_room_for_others(port: int) -> None:
    streams = []
    for _ in range(ROOM * 4):
        streams.append(sent(port, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n"))
        assert streams[-1].recv(1 << 16).startswith(b"HTTP/1.1 200"), "the newest is let in"
        assert httpx.get(f"http://127.0.0.1:{port}/quick", timeout=PATIENCE_S).json() == "here"
    for oldest in streams[: -ROOM // 2]:
        assert said(oldest).endswith(b"0\r\n\r\n"), "it ends as a whole answer"
    for stays in streams[-ROOM // 2 :]:
        stays.recv(1 << 16)
        assert b"ping" in stays.recv(1 << 16)


def test_a_head_and_a_body_have_their_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "HEAD_S", 0.5)
    monkeypatch.setattr(doors, "BODY_S", 0.5)
    assert said(sent(port, "")) == b""
    assert problem(said(sent(port, "GET /quick HTTP/1.1\r\n")))["status"] == 408
    body = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\nab"
    assert problem(said(sent(port, body)))["status"] == 408


def test_who_reads_nothing_of_an_answer_is_let_go(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "UNREAD_S", 0.5)
    unread = sent(port, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
    time.sleep(4)
    got = 0
    while piece := unread.recv(1 << 20):
        got += len(piece)
        assert got < 1 << 30, "it is written to without end"


def test_who_reads_nothing_of_a_whole_answer_is_let_go(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "UNREAD_S", 1.5)
    monkeypatch.setattr(doors, "BODY_BYTES_S", 1 << 30)
    monkeypatch.setattr(doors, "HEAD_S", 0.1)
    ask = "GET /whole HTTP/1.1\r\nHost: a\r\n"
    unread = [sent(port, f"{ask}{more}\r\n") for more in ("", "Connection: close\r\n")]
    time.sleep(4.5)
    for each in unread:
        got = 0
        with contextlib.suppress(ConnectionResetError):
            while piece := each.recv(1 << 20):
                got += len(piece)
        assert got < WHOLE, "it waits for a reader without end"


def test_a_slow_reader_of_a_whole_answer_gets_it(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "HEAD_S", 0.1)
    slow = sent(port, "GET /whole HTTP/1.1\r\nHost: a\r\n\r\n")
    time.sleep(2.5)
    got = 0
    while got < WHOLE:
        piece = slow.recv(1 << 20)
        assert piece
        got += len(piece)


def test_a_message_of_two_lengths_and_no_http_are_refused(port: int) -> None:
    second = "GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"
    two = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    refused = said(sent(port, two + second))
    assert problem(refused)["status"] == 400
    assert refused.count(b"HTTP/1.1") == 1, "what comes behind is not answered"
    assert problem(said(sent(port, "no HTTP at all\r\n\r\n")))["status"] == 400


def test_one_kind_of_line_is_written_a_few_times_a_minute() -> None:
    sparing, now = Sparing(), time.monotonic()
    record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "accept() %s", ("failed",), None)
    assert sum(sparing.filter(record) for _ in range(1000)) == MOST_A_MINUTE
    assert sparing.filter(logging.LogRecord("asyncio", logging.ERROR, "", 0, "another", (), None))
    for state in sparing._seen.values():
        state[0] = now - 61
    assert sparing.filter(record)
    assert record.getMessage() == "accept() failed (990 like this left out)"
    for number in range(5000):
        sparing.filter(logging.LogRecord("a", logging.ERROR, "", 0, f"{number}", (), None))
    assert len(sparing._seen) <= 1000


def test_nobody_writes_lines_of_their_own_into_the_log() -> None:
    """Boards choose their errors, and clients their paths."""
    evil = "no\x1b[2J\n2026-11-27 INFO all is well"
    try:
        raise ValueError(evil)
    except ValueError:
        raised = sys.exc_info()
    record = logging.LogRecord("a", logging.ERROR, "", 0, "board %s", (evil,), raised)
    for usual in (None, logging.Formatter("%(levelname)s: %(message)s")):
        first, *others = Plain(usual).format(record).split("\n")
        assert first.endswith("board no\\x1b[2J\\n2026-11-27 INFO all is well")
        assert all(line.startswith("  ") for line in others)
        assert "\x1b" not in "".join(others)
    assert record.getMessage() == f"board {evil}"


SOCKETS = 1200
FLOODED = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
silent = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print("open", flush=True)
sys.stdin.read()
"""


def test_silent_sockets_stop_nothing_and_blame_no_board(tmp_path: Path) -> None:
    """The service itself with few descriptors, as a shell's default has it."""
    # No module of the tests' is in the way of the service's own.
    environment = {**os.environ, "TILEFLEET_HOME": str(tmp_path)}
    up = f"ulimit -n 1024; exec {sys.executable} -m tilefleet"
    started = subprocess.run(
        ["bash", "-c", f"{up} up --detach --port 0"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    flood = None
    try:
        url = (tmp_path / "url").read_text().strip()
        flood = subprocess.Popen(
            [sys.executable, "-c", FLOODED, url.rpartition(":")[2], str(SOCKETS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert flood.stdout is not None
        assert flood.stdout.readline() == "open\n"
        for _ in range(20):
            boards = httpx.get(f"{url}/api/v1/boards", timeout=PATIENCE_S)
            assert boards.status_code == 200
            (board,) = boards.json()["items"]
            assert board["health"] != "bad", board
            time.sleep(0.2)
        deadline = time.monotonic() + PATIENCE_S
        while board["health"] != "good":
            assert time.monotonic() < deadline, board
            time.sleep(0.5)
            (board,) = httpx.get(f"{url}/api/v1/boards", timeout=PATIENCE_S).json()["items"]
        assert (tmp_path / "up.log").stat().st_size < 1 << 20
    finally:
        if flood is not None:
            flood.kill()
            flood.wait()
        subprocess.run(["bash", "-c", f"{up} stop"], env=environment, capture_output=True, check=False)
