"""Padding that ConvTranspose says in words: the same windows and extents as onnxruntime's."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from compiler.passes.legalize import legalize
from compiler.passes.shapes.import_graph import graph_of
from tuner.runtimes.engines import onnx_session

SAME = ("SAME_UPPER", "SAME_LOWER")
WAYS = [
    (taps, step, spread, extra)
    for taps, step, spread, extra in itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2), (0, 1, 2))
    if extra < max(step, spread)
]


def _model(weights, computed=False, **attributes):
    """A ConvTranspose of one axis and a Relu, with weights that a node makes where they are ``computed``."""
    nodes = [helper.make_node("Identity", ["given"], ["w"])] if computed else []
    nodes += [
        helper.make_node("ConvTranspose", ["x", "w"], ["t"], name="node", **attributes),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    name = "given" if computed else "w"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 5))]
    if computed:
        inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, weights.shape))
    held = [] if computed else [numpy_helper.from_array(weights, name)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "one", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("computed", [False, True], ids=["constant", "computed"])
def test_same_with_output_padding_is_onnxruntimes(computed):
    assert len(WAYS) > 40
    data = np.random.default_rng(1).normal(size=(1, 2, 5)).astype(np.float32)
    compared = 0
    for (taps, step, spread, extra), way in itertools.product(WAYS, SAME):
        weights = np.random.default_rng(taps).normal(size=(2, 3, taps)).astype(np.float32)
        more = {"strides": [step], "dilations": [spread], "output_padding": [extra]}
        model = _model(weights, computed, auto_pad=way, **more)
        feeds = {"x": data, **({"given": weights} if computed else {})}
        session = onnx_session(model.SerializeToString(), 1, optimised=False)
        try:
            expected = session.run(None, feeds)[0]
        except InvalidArgument:
            continue  # more output_padding than onnxruntime takes
        graph = graph_of(model)
        legalize(graph)
        node = next(each for each in graph.nodes if each.op_type == "ConvTranspose")
        said = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        assert "auto_pad" not in said
        written = onnx_session(_model(weights, computed, **said).SerializeToString(), 1, optimised=False)
        np.testing.assert_array_equal(written.run(None, feeds)[0], expected)
        assert graph.tensors["t"].shape == graph.tensors["y"].shape == expected.shape
        compared += 1
    assert compared > 60
