"""What is known of a model before a job is paid for."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from fastapi.testclient import TestClient
from onnx import TensorProto, helper, numpy_helper
from server_samples import conv_model

from compiler.analysis.operations import operations
from compiler.passes.shapes.import_graph import graph_of
from kernels import registry
from kernels.target import CATALOGUE, to_json
from kernels.workload.base import from_json
from tuner.explain.forecast import forecast_in_child
from tuner.log.record import Record, write_log

URL = "/api/v1/models"


def test_a_forecast_goes_by_records_where_there_are_some(client: TestClient) -> None:
    model = client.post(URL, content=conv_model()).json()["hash"]
    found = client.get(f"{URL}/{model}/workloads").json()
    assert found["operators"] == {"Conv": 3, "Relu": 1}
    assert found["tunable_share"] == 1.0
    assert found["inputs"] == [{"name": "x", "shape": [1, 3, 8, 8]}]
    where = {"target": "rpi4", "threads": 2}
    first = client.get(f"{URL}/{model}/forecast", params=where).json()
    assert (first["known"], first["workloads"], first["without"]) == (0, 2, 0)
    rpi4 = CATALOGUE["rpi4"]
    payload = {
        "workloads": [each["workload"] for each in found["workloads"]],
        "target": to_json(rpi4),
        "threads": 2,
    }
    seconds = forecast_in_child(payload)
    counts = [each["count"] for each in found["workloads"]]
    expected_ms = 1e3 * sum(count * each for count, each in zip(counts, seconds, strict=True) if each)
    assert first["predicted_ms"] == first["expected_ms"] == pytest.approx(expected_ms)
    # A record of the one that is there twice.
    (twice,) = (each for each in found["workloads"] if each["count"] == 2)
    workload = from_json(twice["workload"])
    config = registry.recommendations(workload, rpi4, threads=2)[0]
    version = registry.kernel(config.kernel).version
    log = write_log([Record(workload, rpi4, config, version, threads=2, cost_s=1.0)])
    assert client.post("/api/v1/records", content="".join(log)).status_code == 200
    then = client.get(f"{URL}/{model}/forecast", params=where).json()
    assert then["known"] == 1
    assert then["predicted_ms"] == first["predicted_ms"]
    assert then["expected_ms"] == pytest.approx(
        2000 + expected_ms - 2e3 * seconds[found["workloads"].index(twice)]
    )
    nowhere = client.get(f"{URL}/{model}/forecast", params={"target": "nowhere"})
    assert (nowhere.status_code, "unknown target" in nowhere.json()["detail"]) == (422, True)


def _left(node: onnx.NodeProto, shape: tuple[int, ...], *constants: tuple[int, ...]) -> int | None:
    """Operations of the one product of a model."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    weights = [
        numpy_helper.from_array(np.ones(each, np.float32), f"w{at}") for at, each in enumerate(constants)
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "left", inputs, outputs, weights)
    read = graph_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    return operations(read, read.nodes[-1])


def test_operations_follow_from_shapes() -> None:
    volume = helper.make_node("Conv", ["x", "w0"], ["y"], "volume")
    assert _left(volume, (1, 3, 6, 6, 6), (4, 3, 3, 3, 3)) == 2 * 4 * 4**3 * 3 * 27
    left = helper.make_node("MatMul", ["w0", "x"], ["y"], "left")
    assert _left(left, (5, 7), (3, 5)) == 2 * 3 * 7 * 5
    across = helper.make_node("Gemm", ["x", "w0"], ["y"], "across", transA=1)
    assert _left(across, (7, 2), (7, 5)) == 2 * 2 * 5 * 7
    assert _left(helper.make_node("Softmax", ["x"], ["y"], "none"), (4, 5)) is None
