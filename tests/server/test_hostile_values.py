"""Values that JSON can write and nothing can hold, in every field of every body: refused, and never a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from server_samples import conv_model

from server.app import create_app
from server.http.json_text import MOST_DEPTH, parse
from server.settings import Settings
from worker.children.nursery import Nursery

PROBLEM = "application/problem+json"
WRONG = (
    *("[" * 5000, '{"a":' * 5000, "[" * 200 + "]" * 200),
    *('"\\ud800"', '"\\ud800:X"', '{"\\udfff": 1}', '["\\ud800"]'),
    *("1" + "0" * 400, "1e400", "-1e400", "NaN", "Infinity", "1" + "0" * 5000, str(2**64)),
)
TIMES = ('"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59-14:00"')
ODD = (
    *("true", "[]", "{}", "null", '""', '"\\u0000"', '"\\u202e\\u009b"', "-1", "0.5", f'"{"x" * 100_000}"'),
    *TIMES,
)
GOOD: dict[str, Any] = {
    "/api/v1/jobs": {
        "workload": {"kind": "gemm", "m": 8, "n": 8, "k": 8, "epilogue": {"bias": True}},
        "target": "host",
        "budget": {"trials": 1, "seconds": 1},
        "threads": 1,
        "seed": 0,
        "priority": 0,
        "strategy": "random",
        "numerics": "exact",
        "tags": [],
        "labels": ["b"],
        "name": "c",
        "submitter": "d",
        "deadline": "2027-01-01T00:00:00Z",
    },
    "/api/v1/jobs/{job_id}": {"name": "a", "labels": ["b"]},
    "/api/v1/profiles": {
        "model": "0" * 64,
        "target": "x86-avx2",
        "threads": 1,
        "shapes": {"x": [1, 3, 8, 8]},
        "inputs": {"x": {"dtype": "float32", "shape": [1], "data": "AAAA"}},
        "outputs": True,
    },
    "/api/v1/models/{model_hash}/checks": {
        "target": "x86-avx2",
        "threads": 1,
        "shapes": {"x": [1, 3, 8, 8]},
        "records": [{"a": 1}],
        "relayouts": ["a"],
        "library": {"name": "a", "targets": ["x86-avx2"], "level": 0},
    },
    "/api/v1/workloads/{key}/baselines/{library}": {"version": "1", "seconds": 1.0},
    "/api/v1/boards/{board_id}/withdraw": {"since": "2026-01-01T00:00:00Z", "good_too": True},
}


@pytest.fixture
def bold(tmp_path: Any, nursery: Nursery) -> Iterator[TestClient]:
    """A server whose failures are answers."""
    settings = Settings(home=tmp_path / "home", allowed_hosts=("testserver",))
    app = create_app(settings, FakeEngine().open, nursery)
    with TestClient(app, raise_server_exceptions=False) as running:
        yield running


def variants(value: Any, wrong: str) -> Iterator[str]:
    """``value`` as JSON, with ``wrong`` in the place of one leaf or of one part after the other."""
    yield wrong
    if isinstance(value, dict):
        for name in value:
            for each in variants(value[name], wrong):
                rest = {other: item for other, item in value.items() if other != name}
                yield (
                    f"{{{json.dumps(name)}: {each}, {json.dumps(rest)[1:]}"
                    if rest
                    else f'{{"{name}": {each}}}'
                )
    elif isinstance(value, list):
        for at, item in enumerate(value):
            for each in variants(item, wrong):
                yield f"[{', '.join([each, *(json.dumps(other) for other in value[at + 1 :])])}]"


def bodies(app: Any) -> list[tuple[str, str]]:
    return [
        (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    ]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda text: f"{text[:12]}-{len(text)}")
def test_no_field_of_a_body_takes_what_nothing_can_hold(bold: TestClient, wrong: str) -> None:
    found = bodies(bold.app)
    assert GOOD.keys() <= {path for _, path in found}
    for method, path in found:
        address = path.replace("{job_id}", "1").replace("{model_hash}", "0" * 64)
        address = (
            address.replace("{board_id}", "host").replace("{key}", "0" * 16).replace("{library}", "ours")
        )
        address += "?target=x86-avx2" if "baselines" in path else ""
        for body in variants(GOOD.get(path, {"reason": "a"}), wrong):
            answer = bold.request(method, address, content=body, headers={"content-type": "application/json"})
            assert 400 <= answer.status_code < 500, (path, body[:200], answer.text)
            assert answer.headers["content-type"] == PROBLEM


def test_odd_values_are_answered(bold: TestClient) -> None:
    for path in ("/api/v1/jobs", "/api/v1/profiles"):
        for odd in ODD:
            for body in variants(GOOD[path], odd):
                answer = bold.post(path, content=body, headers={"content-type": "application/json"})
                assert answer.status_code < 500, (path, body[:200], answer.text)


@pytest.mark.parametrize("time", TIMES)
def test_a_time_that_is_none_in_utc_is_refused(bold: TestClient, time: str) -> None:
    job = {**GOOD["/api/v1/jobs"], "deadline": json.loads(time)}
    for path, body in (("jobs", job), ("boards/host/withdraw", {"since": json.loads(time)})):
        answer = bold.post(f"/api/v1/{path}", json=body)
        assert (answer.status_code, "years 1 to 9999" in answer.text) == (422, True), answer.text


@pytest.mark.parametrize("name", ["threads", "seed", "priority", "budget", "workload", "shapes"])
def test_a_truth_is_no_number(bold: TestClient, name: str) -> None:
    place: dict[str, Any] = {"budget": {"trials": True}, "shapes": {"x": [True]}}
    place["workload"] = {"kind": "gemm", "m": True, "n": 8, "k": 8}
    body = {**GOOD["/api/v1/jobs"], name: place.get(name, True)}
    answer = bold.post("/api/v1/jobs", json=body)
    assert (answer.status_code, name in answer.text) == (422, True), answer.text


@pytest.mark.parametrize("text", WRONG, ids=lambda text: f"{text[:12]}-{len(text)}")
def test_no_query_takes_what_nothing_can_hold(bold: TestClient, text: str) -> None:
    model = bold.post("/api/v1/models", content=conv_model()).json()["hash"]
    text = text[:10_000]
    for value in (text, f'{{"x": {text}}}', f'{{"x": [{text}]}}'):
        for path in ("", f"/{model}/workloads", f"/{model}/graph", f"/{model}/forecast?target=x86-avx2"):
            answer = bold.post(f"/api/v1/models{path}", params=query(path, "shapes", value))
            assert 400 <= answer.status_code < 500, (path, value[:50], answer.text)
        answer = bold.post("/api/v1/models", params={"values": value}, content=b"x")
        assert 400 <= answer.status_code < 500, answer.text
    for path, methods in bold.app.openapi()["paths"].items():  # type: ignore[attr-defined]
        for parameter in methods.get("get", {}).get("parameters", []):
            if parameter["in"] == "query" and "{" not in path:
                answer = bold.get(path, params={parameter["name"]: text[:3000]})
                assert answer.status_code < 500, (path, parameter["name"], answer.text)


def query(path: str, name: str, value: str) -> dict[str, str]:
    more = {"target": "x86-avx2"} if "forecast" in path else {}
    return {**more, name: value}


def test_json_is_read_strictly() -> None:
    assert parse('{"a": [1, -2.5, "\\ud83d\\ude00", null, true]}') == {
        "a": [1, -2.5, "\U0001f600", None, True]
    }
    assert parse("[" * MOST_DEPTH + "]" * MOST_DEPTH)
    assert parse(str(2**64 - 1)) == 2**64 - 1
    for text in (*WRONG, "", "{", b"\xff"):
        with pytest.raises(ValueError):  # noqa: PT011 - in many words
            parse(text)
