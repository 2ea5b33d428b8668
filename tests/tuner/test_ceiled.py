"""Pools with ceil_mode: a window that would begin in the padding is none, whatever the operator set."""

import numpy as np
import onnxruntime
import pytest
import tvm
from tiny_models import model, node, save
from tvm import relax

from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

TARGET = CATALOGUE["x86-avx2"]
pytestmark = pytest.mark.usefixtures("avx2")


def compared(tmp_path, made, x):
    expected = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    executable, _ = build_model(save(tmp_path, made), {}, TARGET)
    found = run(relax.VirtualMachine(executable, tvm.cpu())["main"], {"x": x})
    for value, right in zip(found, expected, strict=True):
        assert value.shape == right.shape
        np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-5)
    return found


@pytest.mark.parametrize("opset", [12, 18, 22])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "counted", "LpPool"])
@pytest.mark.parametrize(
    ("size", "kernel", "steps", "pads"),
    [
        ((7, 7), (2, 2), (2, 2), (1, 1, 1, 1)),
        ((7, 6), (3, 2), (3, 2), (2, 0, 2, 1)),
        ((5, 8), (1, 2), (3, 3), (0, 0, 0, 1)),
        ((9, 7), (3, 3), (2, 2), (1, 1, 1, 1)),
        ((9, 6), (3, 2), (3, 2), (1, 0, 0, 1)),
        ((8, 9), (3, 4), (2, 3), (1, 1, 1, 0)),
    ],
    ids=str,
)
def test_windows_of_two_axes(tmp_path, op, opset, size, kernel, steps, pads):
    if op == "LpPool" and opset < 18:
        pytest.skip("LpPool has ceil_mode from operator set 18 on")
    if op == "LpPool" and size == (8, 9):
        pytest.skip("onnxruntime reads beyond the last row here")
    more = {"count_include_pad": 1} if op == "counted" else {}
    pool = node(
        "AveragePool" if op == "counted" else op,
        ["x"],
        "y",
        kernel_shape=kernel,
        strides=steps,
        pads=pads,
        ceil_mode=1,
        **more,
    )
    x = np.random.default_rng().normal(size=(1, 2, *size)).astype(np.float32)
    compared(tmp_path, model([pool], {"x": x.shape}, ["y"], opset=opset), x)


@pytest.mark.parametrize("declared", [(1, 2, 4, 4), (1, 2, 5, 5)])
def test_either_shape_may_be_declared(tmp_path, declared):
    """What follows goes by the shape that is computed."""
    pool = node("MaxPool", ["x"], "y", kernel_shape=[2, 2], strides=[2, 2], pads=[1] * 4, ceil_mode=1)
    made = model([pool], {"x": (1, 2, 7, 7)}, ["y"], opset=12)
    for extent in declared:
        made.graph.output[0].type.tensor_type.shape.dim.add().dim_value = extent
    x = np.random.default_rng().normal(size=(1, 2, 7, 7)).astype(np.float32)
    (found,) = compared(tmp_path, made, x)
    assert found.shape == (1, 2, 4, 4)


def test_two_such_pools_and_places(tmp_path):
    how = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1}
    nodes = [
        node("MaxPool", ["x"], "a", **how),
        node("Relu", ["a"], "b"),
        node("AveragePool", ["b"], "c", **how),
    ]
    nodes.append(node("GlobalAveragePool", ["c"], "y"))
    made = model(nodes, {"x": (1, 2, 7, 7)}, ["y"], opset=12)
    compared(tmp_path, made, np.random.default_rng().normal(size=(1, 2, 7, 7)).astype(np.float32))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_padding_in_words_says_how_many_windows_there_are(tmp_path, op):
    """onnx's inference counts one more of SAME; of VALID the last one may begin behind the image."""
    x = np.random.default_rng(1).normal(size=(1, 2, 5, 8)).astype(np.float32)
    same = node(op, ["x"], "y", kernel_shape=[4, 1], strides=[1, 2], auto_pad="SAME_UPPER", ceil_mode=1)
    executable, _ = build_model(save(tmp_path, model([same], {"x": x.shape}, ["y"], opset=18)), {}, TARGET)
    (found,) = run(relax.VirtualMachine(executable, tvm.cpu())["main"], {"x": x})
    plain = node(op, ["x"], "y", kernel_shape=[4, 1], strides=[1, 2], pads=[1, 0, 2, 0])
    peer = onnxruntime.InferenceSession(model([plain], {"x": x.shape}, ["y"], opset=18).SerializeToString())
    np.testing.assert_allclose(found, peer.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)
    valid = node(op, ["x"], "y", kernel_shape=[1, 1], strides=[3, 3], auto_pad="VALID", ceil_mode=1)
    x = x[..., :3, :3]
    compared(tmp_path, model([valid], {"x": x.shape}, ["y"], opset=18), x)
