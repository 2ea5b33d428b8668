"""Spectra as products by tables of waves."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from compiler.load import load_graph
from compiler.passes.legalize import legalize


def test_a_sine_that_is_nothing_is_zero(tmp_path):
    """The first and the last wave of a window of even length have none: the sign of what rounding left over
    would decide between a phase of pi and one of -pi."""
    constants = {"step": np.array(5), "window": np.float32(np.hanning(20) + 0.1), "length": np.array(20)}
    graph = helper.make_graph(
        [helper.make_node("STFT", ["x", *constants], ["y"])],
        "spectra",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 60))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 9, 11, 2))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    path = tmp_path / "model.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    graph = load_graph(path)
    legalize(graph)
    (conv,) = [node for node in graph.nodes if node.op_type == "Conv"]
    sines = graph.constants[conv.input[1]].reshape(11, 2, 20)[:, 1]
    assert not sines[[0, -1]].any()
    assert sines[1:-1].any(axis=1).all()
