"""Running a model whole on a board, by the API."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from server_samples import conv_model

from tuner.backend.check import Check, Delivery
from tuner.job.profile import Ran

URL = "/api/v1/profiles"
RIGHT = Check(1e-4, {"y": 1e-6}, {"y": 1e-4}, "onnxruntime 1.31.1", where="board host")
OPERATORS = [
    {"name": "conv", "key": "6b7d178c4a20e046", "calls": 2, "seconds": 4e-3},
    {"name": "softmax", "key": "", "calls": 1, "seconds": 1e-3},
]


def tensor(array: np.ndarray) -> dict[str, object]:
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


@pytest.fixture
def model(client: TestClient) -> str:
    return client.post("/api/v1/models", content=conv_model()).json()["hash"]


def test_a_model_is_run_on_a_board(client: TestClient, engine: FakeEngine, model: str) -> None:
    outputs = {"y": tensor(np.float32([1, 2]))}
    ran = Ran(Delivery(RIGHT, 5e-3, 0.02, operators=OPERATORS), "host", 4e-3, 1, 2, 300, 700, outputs)
    engine.ran = ran.to_json()
    request = {"model": model, "board": "host", "outputs": True}
    response = client.post(URL, json=request)
    assert response.status_code == 200, response.text
    found = response.json()
    assert (found["board"], found["target"], found["clock"], found["threads"]) == ("host", "host", "wall", 1)
    assert (found["measured_ms"], found["spread"], found["estimated_ms"]) == (5.0, 0.02, 4.0)
    assert (found["from_records"], found["by_analysis"]) == (1, 2)
    assert found["memory"] == {"weights_bytes": 300, "workspace_bytes": 700}
    assert [each["share"] for each in found["operators"]] == [0.8, 0.2]
    assert (found["checked"], found["check"]) == (True, vars(RIGHT))
    assert found["outputs"] == outputs
    assert engine.demands[-1].board == "host"
    # Without being asked for, outputs stay where they are.
    found = client.post(URL, json={"model": model, "target": "host"}).json()
    assert found["outputs"] is None
    assert engine.demands[-1].board == ""


def test_inputs_reach_the_child(client: TestClient, engine: FakeEngine, model: str) -> None:
    engine.ran = {"invalid": "input 'x' is float64 and should be float32", "at": "inputs"}
    given = tensor(np.zeros((1, 3), np.float64))
    response = client.post(URL, json={"model": model, "board": "host", "inputs": {"x": given}})
    assert response.status_code == 422
    assert response.json()["detail"] == "input 'x' is float64 and should be float32"
    assert response.json()["errors"][0]["loc"] == ["body", "inputs"]
    assert engine.payloads[-1]["inputs"] == {"x": given}


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"model": "0" * 64}, 404, "there is no model"),
        ({"board": "moon"}, 422, "there is no board 'moon'; there are: host"),
        ({"board": None, "target": "vax"}, 422, "unknown target 'vax'"),
        ({"board": None, "target": "power10"}, 422, "has no board here"),
        ({"target": "host"}, 422, "either board or target"),
        ({"inputs": {"x": {"dtype": "object", "shape": [1], "data": ""}}}, 422, "float32"),
        ({"inputs": {"x": {"dtype": "int8", "shape": [1], "data": "!"}}}, 422, "pattern"),
    ],
)
def test_what_cannot_be_is_refused(client: TestClient, model: str, change, status: int, said: str) -> None:
    response = client.post(URL, json={"model": model, "board": "host"} | change)
    assert (response.status_code, said in response.text) == (status, True), response.text


def test_no_board_is_a_conflict(client: TestClient, model: str) -> None:
    assert client.post(URL, json={"model": model, "board": "host"}).status_code == 409
