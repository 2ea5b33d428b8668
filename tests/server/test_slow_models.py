"""Uploads that take long to read wait in a queue of their own: the API answers beside them."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from server_samples import conv_model

from server.http.uploads import ABANDONED_S, forget_old
from server.models import service as models
from server.services import READERS_EACH

URL = "/api/v1/models"
UPLOADS = 100
MOST_TIMES = 50
"""So many times an idle service's time an answer may take: the uploads' threads are in this process, too.
With all threads taken it would be as long as a model is read."""


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reading a model lasts until it is let go; how many are read at once, at the most."""
    let_go, lock, seen = threading.Event(), threading.Lock(), {"now": 0, "most": 0, "all": 0}
    extract = models.extract

    def slowly(*arguments: Any) -> Any:
        with lock:
            seen["now"] += 1
            seen["all"] += 1
            seen["most"] = max(seen["most"], seen["now"])
        let_go.wait(100)
        with lock:
            seen["now"] -= 1
        return extract(*arguments)

    monkeypatch.setattr(models, "extract", slowly)
    yield let_go, seen
    let_go.set()


def answer_s(client: TestClient) -> float:
    """What two requests take, the median of some."""
    took = []
    for _ in range(7):
        began = time.monotonic()
        assert client.get("/api/v1/jobs").status_code == 200
        assert client.get("/health").status_code == 200
        took.append(time.monotonic() - began)
    return median(took)


def test_the_api_answers_beside_many_slow_uploads(client: TestClient, slow: Any) -> None:
    let_go, seen = slow
    bodies = [conv_model((1, 3, 8, 8), channels) for channels in range(2, 2 + UPLOADS)]
    idle_s = answer_s(client)
    with ThreadPoolExecutor(UPLOADS) as pool:
        uploads = [pool.submit(client.post, URL, content=body) for body in bodies]
        while seen["now"] < READERS_EACH:
            time.sleep(0.01)
        assert answer_s(client) < MOST_TIMES * idle_s
        let_go.set()
        assert {each.result().status_code for each in uploads} == {201}
    assert seen["most"] == READERS_EACH


def test_other_shapes_are_read_once_and_never_by_get(client: TestClient, slow: Any) -> None:
    let_go, seen = slow
    let_go.set()
    model = client.post(
        URL, params={"shapes": '{"x": [2, 3, 8, 8]}'}, content=conv_model(("n", 3, 8, 8))
    ).json()
    other = {"shapes": '{"x": [5, 3, 8, 8]}'}
    path = f"{URL}/{model['hash']}/workloads"
    found: list[httpx.Response] = [client.post(path, params=other) for _ in range(3)]
    assert [each.json()["workloads"][0]["workload"]["n"] for each in found] == [5] * 3
    assert seen["all"] == 2
    assert client.get(path, params=other).status_code == 422
    assert client.get(path).json()["workloads"][0]["workload"]["n"] == 2
    assert seen["all"] == 2


def test_what_a_killed_process_had_received_is_deleted(tmp_path: Any) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    past = time.time() - ABANDONED_S - 1
    os.utime(old, (past, past))
    forget_old(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["new"]
