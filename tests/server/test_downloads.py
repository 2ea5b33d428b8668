"""Logs and tables as files: made in turns beside all else, and no further once their client has gone."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvicorn
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from server_samples import record

from server.app import create_app
from server.http.downloads import PIECE_S
from server.records import repository, search
from server.settings import Settings
from tuner.log.record import Record
from worker.children.nursery import Nursery

PATIENCE_S = 120.0
PATHS = (
    "/api/v1/records/log",
    "/api/v1/records/log?format=csv",
    "/api/v1/targets/host/log?select=all",
)


@pytest.fixture
def port(tmp_path: Any, nursery: Nursery) -> Iterator[int]:
    app = create_app(Settings(home=tmp_path / "home"), FakeEngine().open, nursery)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


def come_from(monkeypatch: pytest.MonkeyPatch, records: Callable[..., Iterator[Record]]) -> None:
    monkeypatch.setattr(search, "every", records)
    monkeypatch.setattr(repository, "log", records)


@pytest.mark.parametrize("path", PATHS)
def test_it_ends_when_the_client_has_gone(path: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read = threading.Semaphore(0)

    def endless(*_: Any, **__: Any) -> Iterator[Record]:
        for number in itertools.count(1):
            read.release()
            time.sleep(0.01)
            yield record(number)

    come_from(monkeypatch, endless)
    with socket.create_connection(("127.0.0.1", port)) as asker:
        asker.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        for _ in range(20):
            assert read.acquire(timeout=PATIENCE_S)
    while read.acquire(timeout=2.0):
        pass  # it would be read without end


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_many_are_made_one_part_after_the_other_beside_all_else(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the API has threads, of which each stops in the middle."""
    let_go, lock, seen = threading.Event(), threading.Lock(), {"now": 0, "most": 0}

    def slow(*_: Any, **__: Any) -> Iterator[Record]:
        with lock:
            seen["now"] += 1
            seen["most"] = max(seen["most"], seen["now"])
        let_go.wait(PATIENCE_S)
        with lock:
            seen["now"] -= 1
        yield record(1)

    come_from(monkeypatch, slow)
    services = client.app.state.services  # type: ignore[attr-defined]  # the application's own
    with ThreadPoolExecutor(60) as pool:
        try:
            asked = [pool.submit(client.get, path) for path in PATHS * 20]
            deadline = time.monotonic() + PATIENCE_S
            while services.exporting.waiting + services.tables.waiting < 58 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert client.get("/health").status_code == 200
            assert client.get("/api/v1/jobs").status_code == 200
            assert not any(each.done() for each in asked)
        finally:
            let_go.set()
        assert {each.result().status_code for each in asked} == {200}
    assert seen["most"] == 1


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_is_too_many_is_refused_before_it_begins(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, begun = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> Iterator[Record]:
        begun.set()
        let_go.wait(PATIENCE_S)
        for number in range(1, 50):
            time.sleep(PIECE_S / 10)
            yield record(number)

    come_from(monkeypatch, slow)
    monkeypatch.setattr(client.app.state.services.exporting, "_most", 0)  # type: ignore[attr-defined]
    with ThreadPoolExecutor(1) as pool:
        try:
            first = pool.submit(client.get, PATHS[0])
            assert begun.wait(PATIENCE_S)
            refused = [client.get(path) for path in PATHS]
        finally:
            let_go.set()
        assert first.result().status_code == 200, "none that has begun is cut short"
        assert len(first.result().text.splitlines()) == 50
    assert [each.status_code for each in refused] == [503] * len(PATHS)
