"""The last comparison of a simulated board's job: the tuned model beside the untuned one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from kernels import registry
from kernels import target as targets
from kernels.target import CATALOGUE
from tuner.frontend.graph import load_partition
from tuner.job.models_on_board import time_in_child
from tuner.log.record import Record

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(600)]


def test_the_slower_of_two_models_is_told(simulated_boards, tmp_path: Path) -> None:
    """A record that promises much for a config that takes long."""
    board, target = simulated_boards["rpi4-sim"], CATALOGUE["rpi4"]
    weights = np.random.default_rng(0).standard_normal((16, 8, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "model.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    (product,) = load_partition(path).products
    kernel = registry.kernel("fconv")
    space = [c for c in registry.search_space(product.workload, target) if c.kernel == "fconv"]
    slow = max(space, key=lambda config: kernel.predict(product.workload, config, target))
    record = Record(product.workload, target, slow, kernel.version, clock=board.clock, cost_s=1e-9)
    payload = {
        "model": str(path),
        "shapes": None,
        "target": targets.to_json(target),
        "threads": 1,
        "numerics": "exact-integers",
        "relayouts": [],
        "records": [record.to_json()],
        "board": board.address,
        "id": board.id,
        "lock": str(tmp_path / "lock"),
    }
    found = time_in_child(payload, lambda _: None)
    assert found["configs"] == []
    assert 0 < found["untuned_s"] < 0.9 * found["tuned_s"]
    (untuned,) = found["untuned"]
    assert untuned["key"] == product.workload.key
    assert untuned["config"] != slow.to_json()
    alike = time_in_child({**payload, "records": [], "board": "nowhere"}, lambda _: None)
    assert alike["tuned_s"] == alike["untuned_s"]
