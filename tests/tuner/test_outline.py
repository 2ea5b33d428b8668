"""A model's graph for people: every product one node, each behind what it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compiler.intake import outline as outlines
from compiler.intake.outline import Node, outline, outline_child
from compiler.load import load_partition
from kernels.workload.base import Conv2d


def forked(path: Path) -> None:
    """A convolution whose result goes through a pooling and another convolution, which meet again."""
    weights = np.ones((4, 4, 1, 1), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "one"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[1, 1]),
        helper.make_node("Conv", ["b", "w"], ["d"], "two"),
        helper.make_node("Concat", ["c", "d"], ["y"], "join", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "forked",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8, 8, 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def test_a_product_is_one_node_with_all_it_computes(tmp_path: Path) -> None:
    path = tmp_path / "forked.onnx"
    forked(path)
    shapes = {"x": [2, 4, 8, 8]}
    plain, relu = (product.workload for product in load_partition(path, shapes).products[::-1])
    assert isinstance(plain, Conv2d)
    assert plain.n == 2
    expected = [
        Node("x", "Input", "", ()),
        Node("one", str(relu), relu.key, (0,)),
        Node("pool", "MaxPool", "", (1,)),
        Node("two", str(plain), plain.key, (1,)),
        Node("join", "Concat", "", (2, 3)),
        Node("y", "Output", "", (4,)),
    ]
    assert outline(load_partition(path, shapes)) == expected
    found = outline_child({"path": str(path), "shapes": [shapes, {"x": [1, 4, 8, 8]}]})
    assert [node["workload"] for node in found] == [node.workload for node in expected]


def test_a_graph_too_large_to_be_shown_is_none(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "forked.onnx"
    forked(path)
    monkeypatch.setattr(outlines, "MOST", 5)
    assert outline_child({"path": str(path), "shapes": {"x": [1, 4, 8, 8]}}) == []
