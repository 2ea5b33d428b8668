"""The bench of operators in onnxruntime on a small model: only the shape of its figures is checked."""

from pathlib import Path

import pytest
from benches import bench
from onnx import TensorProto, helper, numpy_helper


def test_a_small_model(tmp_path: Path) -> None:
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs AVX2 to run what it builds")
    import numpy as np

    weights = numpy_helper.from_array(np.ones((8, 5), np.float32), "w")
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (3, 8)), ("y", (3, 5)))
    ]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", values[:1], values[1:], [weights]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    (row,) = bench("onnxruntime_operators", tmp_path, str(tmp_path / "m.onnx"), "--rounds", "3")["rows"]
    assert row["same_bits"]
    assert (row["operators"], row["left"]) == (1, 0)
    assert row["max_error"] < 1e-5
    assert row["over_plain"] > 0
    assert row["over_module"] > 0
    assert row["ms"]["floor"] > row["ms"]["nothing"]
