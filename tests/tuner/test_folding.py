"""What is made of constants: by the reference, by onnxruntime, or in the build; never a refusal."""

import importlib.util

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto
from tiny_models import model, node, save
from tvm import relax

from compiler.ir.checks import ModelError
from compiler.load import load_partition
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

TARGET = CATALOGUE["x86-avx2"]
rng = np.random.default_rng(3)
PLANE = rng.normal(size=(1, 2, 7, 6)).astype(np.float32)
TABLE, PLACES = rng.normal(size=(1, 512)).astype(np.float32), np.arange(80)[None]
NODES = {
    "GatherElements": (node("GatherElements", ["table", "places"], "c", axis=1), (1, 80)),
    "SAME pool": (
        node("MaxPool", ["plane"], "c", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_LOWER"),
        (1, 2, 4, 3),
    ),
    "LRN": (node("LRN", ["plane"], "c", size=3), (1, 2, 7, 6)),
    "GlobalLpPool": (node("GlobalLpPool", ["plane"], "c"), (1, 2, 1, 1)),
    "Pad": (node("Pad", ["plane", "cut"], "c"), (1, 2, 6, 5)),
    "Upsample": (node("Upsample", ["plane", "scales"], "c", mode="linear"), (1, 2, 14, 12)),
}
CONSTANTS = {
    "table": TABLE,
    "places": PLACES,
    "plane": PLANE,
    "cut": np.array([0, 0, -1, 0, 0, 0, 0, -1]),
    "scales": np.float32([1, 1, 2, 2]),
}


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("installed", [True, False], ids=["onnxruntime", "alone"])
def test_a_node_of_constants_that_the_reference_does_not_compute(tmp_path, monkeypatch, name, installed):
    made, shape = NODES[name]
    opset = 9 if name == "Upsample" else 17
    whole = model([made, node("Add", ["x", "c"], "y")], {"x": shape}, ["y"], CONSTANTS, opset=opset)
    path, x = save(tmp_path, whole), rng.normal(size=shape).astype(np.float32)
    expected = onnxruntime.InferenceSession(whole.SerializeToString()).run(None, {"x": x})
    find = importlib.util.find_spec
    if not installed:
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name)
        )
    kinds = [each.op_type for each in load_partition(path).graph.nodes]
    assert (kinds == ["Add"]) == installed
    executable, _ = build_model(path, {}, TARGET)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    np.testing.assert_allclose(run(main, {"x": x})[0], expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("avx2")
def test_shapes_that_follow_from_such_a_node(tmp_path):
    nodes = [node("GatherElements", ["many", "at"], "shape"), node("Reshape", ["x", "shape"], "y")]
    many = np.arange(100)
    made = model(nodes, {"x": (6, 4)}, ["y"], {"many": many, "at": np.array([3, 8])})
    assert load_partition(save(tmp_path, made)).graph.tensors["y"].shape == (3, 8)
    assert made.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


STRANGE = {
    "a byte of infinity": (node("QuantizeLinear", ["far", "step", "zero"], "c"), 17),
    "a byte of what is far": (node("QuantizeLinear", ["near", "small", "zero"], "c"), 17),
    "a mean of large integers": (node("ReduceMean", ["large"], "c", axes=[0], keepdims=0), 17),
    "a square of a large integer": (node("Pow", ["large", "two"], "c"), 17),
    "a softmax of all axes behind": (node("Softmax", ["near"], "c", axis=0), 11),
}
VALUES = {
    "far": np.float32([np.inf, -np.inf, 1, np.nan]),
    "near": np.float32([[1, -3e9], [2, 7]]),
    "step": np.float32(0.1),
    "small": np.float32(1e-3),
    "zero": np.uint8(7),
    "large": np.int32([46341, 2**31 - 1, 2**31 - 1]),
    "two": np.int32(2),
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_the_reference_makes_otherwise_is_made_by_onnxruntime(tmp_path, name):
    one, opset = STRANGE[name]
    used = {key: value for key, value in VALUES.items() if key in one.input}
    nodes = [one, node("Cast", ["c"], "f", to=TensorProto.FLOAT), node("Add", ["x", "f"], "y")]
    whole = model(nodes, {"x": ()}, ["y"], used, opset=opset)
    partition = load_partition(save(tmp_path, whole))
    (add,) = partition.graph.nodes
    (folded,) = (partition.graph.constants[each] for each in add.input if each != "x")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(whole.SerializeToString(), options)
    np.testing.assert_allclose(folded, session.run(None, {"x": np.zeros((), np.float32)})[0], rtol=1e-6)


def test_a_known_index_beyond_a_known_table_is_refused(tmp_path):
    nodes = [node("GatherElements", ["near", "at"], "c"), node("Add", ["x", "c"], "y")]
    made = model(nodes, {"x": (1, 2)}, ["y"], {"near": VALUES["near"], "at": np.array([[0, -3]])})
    with pytest.raises(ModelError, match=r"'c' \(GatherElements\) needs an index from -2 to 1"):
        build_model(save(tmp_path, made), {}, TARGET)
