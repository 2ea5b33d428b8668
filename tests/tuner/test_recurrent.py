"""An LSTM in a graph whose names lie close together."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from kernels.target import CATALOGUE
from tuner.backend.apply import build_model


@pytest.mark.parametrize("steps", [1, 3])
def test_a_node_may_be_called_like_its_only_output(tmp_path: Path, steps: int) -> None:
    """Its other results, which nobody reads, get names of their own, also where there is but one step."""
    rng = np.random.default_rng()
    shapes = {"w": (1, 28, 5), "r": (1, 28, 7), "b": (1, 56)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype("f"), n) for n, s in shapes.items()]
    node = helper.make_node("LSTM", ["x", *shapes], ["lstm"], name="lstm", hidden_size=7)
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (steps, 2, 5)), ("lstm", (steps, 1, 2, 7)))
    ]
    graph = helper.make_graph([node], "g", values[:1], values[1:], weights)
    path = tmp_path / "lstm.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    data = rng.standard_normal((steps, 2, 5)).astype("f")
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(data))
    (right,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})
    np.testing.assert_allclose(found.numpy(), right, atol=1e-5)
