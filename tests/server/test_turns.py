"""Heavy requests: shared between clients, ended when their client goes, and never a GET."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import uvicorn
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from server_samples import conv_model

from compiler.intake.shapes import MOST_SETS
from server.app import create_app
from server.http.problems import Problem
from server.http.turns import Turns
from server.models import extraction
from server.models.extraction import TIMEOUT_S
from server.routes import records
from server.settings import Settings
from worker.children.nursery import ChildCancelled, Nursery

MODELS = "/api/v1/models"
PATIENCE_S = 240.0


class Asker:
    """A request as turns see it."""

    def __init__(self, address: str) -> None:
        self.client = type("Address", (), {"host": address})
        self.gone = False

    async def is_disconnected(self) -> bool:
        return self.gone


async def take(turns: Turns, order: list[str], name: str, address: str, go: asyncio.Event) -> None:
    async with turns.turn(Asker(address)):  # type: ignore[arg-type]
        order.append(name)
        await go.wait()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_one_client_cannot_hold_all_turns() -> None:
    async def run() -> None:
        turns, order, go = Turns(10, 3, 2), list[str](), asyncio.Event()
        greedy = [asyncio.create_task(take(turns, order, f"a{i}", "a", go)) for i in range(5)]
        await settle()
        assert order == ["a0", "a1"]
        others = [asyncio.create_task(take(turns, order, name, name, go)) for name in ("b", "c")]
        await settle()
        assert order == ["a0", "a1", "b"]
        assert turns.waiting == 4
        go.set()
        await asyncio.gather(*greedy, *others)
        assert order[3] == "c", "before those of a client that had its turns"
        assert turns.waiting == 0
        assert not turns._running
        assert not turns._served

    asyncio.run(run())


def test_the_client_with_most_in_the_queue_gives_way() -> None:
    async def run() -> None:
        turns, order, go = Turns(3), list[str](), asyncio.Event()
        greedy = [asyncio.create_task(take(turns, order, f"a{i}", "a", go)) for i in range(4)]
        await settle()
        other = asyncio.create_task(take(turns, order, "b", "b", go))
        await settle()
        with pytest.raises(Problem, match="3 other requests wait"):
            await greedy[3]
        go.set()
        await asyncio.gather(*greedy[:3], other)
        assert order == ["a0", "b", "a1", "a2"]

    asyncio.run(run())


def test_who_goes_while_waiting_leaves_nothing_behind() -> None:
    async def run() -> None:
        turns, order, go = Turns(3), list[str](), asyncio.Event()
        first = asyncio.create_task(take(turns, order, "first", "a", go))
        await settle()
        second = asyncio.create_task(take(turns, order, "second", "a", go))
        await settle()
        second.cancel()
        await settle()
        assert turns.waiting == 0
        first.cancel()
        await settle()
        go.set()
        await take(turns, order, "third", "b", go)
        assert order == ["first", "third"]

    asyncio.run(run())


@pytest.fixture
def served(tmp_path: Any, nursery: Nursery) -> Iterator[str]:
    """The address of a server that real connections reach."""
    app = create_app(Settings(home=tmp_path / "home"), FakeEngine().open, nursery)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_reading_ends_when_the_client_has_gone(
    served: str, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many uploads as are read at once, each with all sets of shapes, whose clients hang up."""
    real, ends, begun = nursery.call, list[type[BaseException]](), threading.Semaphore(0)

    def call(function: str, payload: Any, *, timeout_s: float, **more: Any) -> Any:
        if not isinstance(payload.get("shapes"), list):
            return real(function, payload, timeout_s=timeout_s, **more)
        assert timeout_s == TIMEOUT_S, "for all sets together"
        begun.release()
        try:
            return real("server_hostile:hang", None, timeout_s=3600, **more)
        except BaseException as error:
            ends.append(type(error))
            raise

    monkeypatch.setattr(nursery, "call", call)
    sets = [f'{{"x":[{n},3,8,8]}}' for n in range(1, 1 + MOST_SETS)]
    query = httpx.QueryParams({"shapes": f"[{','.join(sets)}]"})
    host, port = served.removeprefix("http://").split(":")
    silent = []
    for channels in (5, 6):
        body = conv_model(("n", 3, 8, 8), channels)
        head = f"POST {MODELS}?{query} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
        silent.append(socket.create_connection((host, int(port))))
        silent[-1].sendall(head.encode() + body)
    for _ in silent:
        assert begun.acquire(timeout=PATIENCE_S)
    for each in silent:
        each.close()
    uploaded = httpx.post(f"{served}{MODELS}", content=conv_model(), timeout=PATIENCE_S)
    assert uploaded.status_code == 201, uploaded.text
    deadline = time.monotonic() + PATIENCE_S
    while len(ends) < len(silent) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ends == [ChildCancelled] * len(silent)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_several_sets_that_take_too_long_are_refused_together(
    client: TestClient, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = nursery.call

    def call(function: str, payload: Any, *, timeout_s: float, **more: Any) -> Any:
        return real("server_hostile:hang", None, timeout_s=0.2, **more)

    monkeypatch.setattr(nursery, "call", call)
    monkeypatch.setattr(extraction, "TIMEOUT_S", 7.0)
    shapes = '[{"x": [1, 3, 8, 8]}, {"x": [2, 3, 8, 8]}]'
    refused = client.post(MODELS, params={"shapes": shapes}, content=conv_model(("n", 3, 8, 8)))
    assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
    assert "all 2 sets of shapes took more than 7 s; give fewer" in refused.json()["detail"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_logs_are_read_one_after_the_other_beside_all_else(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More imports than the API has threads, none of which ends."""
    let_go, lock, seen = threading.Event(), threading.Lock(), {"now": 0, "most": 0}

    def slowly(*_: Any) -> tuple[int, int]:
        with lock:
            seen["now"] += 1
            seen["most"] = max(seen["most"], seen["now"])
        let_go.wait(PATIENCE_S)
        with lock:
            seen["now"] -= 1
        return 0, 0

    monkeypatch.setattr(records, "import_log", slowly)
    waiting = client.app.state.services.importing  # type: ignore[attr-defined]  # the application's own
    with ThreadPoolExecutor(60) as pool:
        try:
            imports = [pool.submit(client.post, "/api/v1/records", content=b"") for _ in range(60)]
            deadline = time.monotonic() + PATIENCE_S
            while waiting.waiting < 59 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert client.get("/health").status_code == 200
            assert client.get("/api/v1/jobs").status_code == 200
            assert not any(each.done() for each in imports)
        finally:
            let_go.set()
        assert {each.result().status_code for each in imports} == {200}
    assert seen["most"] == 1


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_get_reads_a_model(client: TestClient, nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every GET of a model, with shapes that it was not uploaded with."""
    model = client.post(MODELS, content=conv_model(("n", 3, 8, 8)), params={"shapes": '{"x":[1,3,8,8]}'})
    path = f"{MODELS}/{model.json()['hash']}"
    real, asked = nursery.call, list[str]()

    def call(function: str, *arguments: Any, **more: Any) -> Any:
        asked.append(function)
        return real(function, *arguments, **more)

    monkeypatch.setattr(nursery, "call", call)
    paths = client.app.openapi()["paths"]  # type: ignore[attr-defined]
    inside = [each for each, methods in paths.items() if "{model_hash}" in each and "get" in methods]
    assert inside
    for each in inside:
        address = each.replace("{model_hash}", model.json()["hash"])
        for query in ({}, {"target": "host"}, {"shapes": '{"x":[2,3,8,8]}'}):
            client.get(address, params=query)
    assert not [each for each in asked if each.startswith("compiler.intake")]
    assert client.get(f"{path}/graph").status_code == 405
    shapes = {"target": "x86-avx2", "shapes": '{"x":[2,3,8,8]}'}
    assert client.get(f"{path}/forecast", params=shapes).status_code == 422
    assert client.post(f"{path}/forecast", params=shapes).status_code == 200
    assert [each for each in asked if each.startswith("compiler.intake")]
