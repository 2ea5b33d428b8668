"""Models of the first operator sets, which have attributes and types that later ones do not."""

import numpy as np
import pytest
import tvm
from onnx import TensorProto
from tiny_models import model, node, save
from tvm import relax

from compiler.ir.checks import ModelError
from compiler.load import load_graph
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

pytestmark = pytest.mark.usefixtures("avx2")


def test_forms_of_the_first_set(tmp_path):
    """All in one model: shapes as an attribute, types as words, what is read and changed at once."""
    nodes = [
        node("Relu", ["x"], "relu", consumed_inputs=[0]),
        node("Pad", ["relu"], "wide", paddings=[0, 0, 0, 1, 0, 0, 1, 0], mode="constant", value=2.0),
        node("Concat", ["wide", "wide"], "twice"),
        node(
            "BatchNormalization", ["twice", "s", "s", "s", "s"], "normal", is_test=1, consumed_inputs=[0] * 3
        ),
        node("Add", ["normal", "s"], "more", broadcast=1, axis=1, consumed_inputs=[0, 0]),
        node("Clip", ["more"], "low", max=2.0),
        node("Reshape", ["low"], "flat", shape=[0, -1]),
        node("Gemm", ["flat", "w", "b"], "sum", broadcast=1),
        node("Selu", ["sum"], "selu", consumed_inputs=[0]),
        node("Cast", ["selu"], "y", to="FLOAT"),
        node("Reshape", ["y"], "z", shape=[2, 1, -1]),
    ]
    rng = np.random.default_rng(3)
    s, w, b, x = (rng.uniform(0.5, 1.5, size) for size in (4, (100, 3), 3, (2, 2, 4, 4)))
    x = (x - 1) * 3
    constants = {"s": s.astype(np.float32), "w": w.astype(np.float32) - 1, "b": b.astype(np.float32)}
    made = model(nodes, {"x": x.shape}, ["y", "z"], constants, opset=1, ir_version=3)
    executable, _ = build_model(save(tmp_path, made), {}, CATALOGUE["x86-avx2"])
    found = run(relax.VirtualMachine(executable, tvm.cpu())["main"], {"x": x.astype(np.float32)})
    wide = np.pad(np.maximum(x, 0), ((0, 0), (0, 0), (0, 1), (1, 0)), constant_values=2)
    at = s[:, None, None]
    low = np.minimum((np.concatenate([wide, wide], 1) - at) / np.sqrt(at + 1e-5) * at + at + at, 2)
    total = low.reshape(2, -1) @ (w - 1) + b
    selu = 1.0507 * np.where(total > 0, total, 1.6732 * (np.exp(total) - 1))
    np.testing.assert_allclose(found[0], selu, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1], selu.reshape(2, 1, 3), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("opset", [1, 5, 6])
def test_shapes_that_onnx_does_not_infer(tmp_path, opset):
    def shape(made, inputs):
        whole = model([made], inputs, ["y"], opset=opset, ir_version=3)
        return load_graph(save(tmp_path, whole)).tensors["y"].shape

    recurrence = node("LSTM", ["x", "w", "r"], "y", hidden_size=2)
    assert shape(recurrence, {"x": (3, 1, 2), "w": (1, 8, 2), "r": (1, 8, 2)}) == (3, 1, 1, 2)
    assert shape(node("Upsample", ["x"], "y", width_scale=2.0, height_scale=1.0), {"x": (1, 2, 3, 4)}) == (
        *(1, 2, 3, 8),
    )


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (node("Cast", ["x"], "y", to="DECIMAL"), "makes 'DECIMAL', which is no type"),
        (node("LpPool", ["x"], "y", kernel_shape=[2, 2], p=1.5), "p=1.5, which is no whole number"),
    ],
)
def test_what_no_set_has(tmp_path, made, words):
    file = save(tmp_path, model([made], {"x": (1, 1, 4, 4)}, ["y"], opset=1, dtype=TensorProto.FLOAT))
    with pytest.raises(ModelError, match=words):
        load_graph(file)
