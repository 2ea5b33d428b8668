"""The bench of C libraries on a small model: only the shape of its figures is checked."""

import os
from pathlib import Path

import pytest
from benches import bench
from onnx import TensorProto, helper, numpy_helper


def test_a_small_model(tmp_path: Path) -> None:
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs AVX2 to run what it builds")
    import numpy as np

    weights = numpy_helper.from_array(np.ones((8, 3, 3, 3), np.float32), "w")
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 3, 9, 9)), ("y", (1, 8, 7, 7)))
    ]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])], "g", values[:1], values[1:], [weights]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    if len(os.sched_getaffinity(0)) > 1:
        found = bench("clibrary", tmp_path, str(tmp_path / "m.onnx"), "--rounds", "3", "--threads", "2")
        assert found["threads"] == 2
        assert found["ratio"] > 0
    found = bench("clibrary", tmp_path, str(tmp_path / "m.onnx"), "--rounds", "3")
    assert found["ratio"] > 0
    assert found["arena_bound"] <= found["arena_bytes"] <= found["unshared_bytes"]
    assert found["code_bytes"] < 64 * 1024
    assert found["resident_beside"] < 1 << 20
