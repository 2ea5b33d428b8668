"""Sparse initializers and Constants are computed with as if they were dense."""

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import helper, numpy_helper
from tiny_models import model, node, save
from tvm import relax

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

TARGET = CATALOGUE["x86-avx2"]


def made(indices, values=(1.0, 2.0, -3.0), name="w", dims=(5, 3)):
    found = model([node("MatMul", ["x", name], "y")], {"x": (2, 5)}, ["y"], opset=18)
    parts = (
        numpy_helper.from_array(np.float32(values), name),
        numpy_helper.from_array(np.array(indices), "at"),
    )
    sparse = helper.make_sparse_tensor(*parts, list(dims))
    if name:
        found.graph.sparse_initializer.append(sparse)
    else:
        found.graph.node[0].input[1] = "c"
        found.graph.node.insert(0, helper.make_node("Constant", [], ["c"], sparse_value=sparse))
    return found


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("name", ["w", ""])
@pytest.mark.parametrize("indices", [[0, 7, 14], [[0, 1], [2, 2], [4, 0]]], ids=str)
def test_sparse_constants_are_computed_with(tmp_path, indices, name):
    x = np.random.default_rng(1).normal(size=(2, 5)).astype(np.float32)
    dense = np.zeros(15, np.float32)
    dense[np.array(indices) @ [3, 1] if np.ndim(indices) == 2 else indices] = [1, 2, -3]
    data = made(indices, name=name)
    executable, _ = build_model(save(tmp_path, data), {}, TARGET)
    (found,) = run(relax.VirtualMachine(executable, tvm.cpu())["main"], {"x": x})
    np.testing.assert_allclose(found, x @ dense.reshape(5, 3), rtol=1e-5, atol=1e-5)
    (peer,) = onnxruntime.InferenceSession(data.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(found, peer, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"indices": [0, 7, 15]}, "indices outside of"),
        ({"indices": [0, 7, -1]}, "indices outside of"),
        ({"indices": [[0, 1], [2, 3], [4, 0]]}, "indices outside of"),
        ({"indices": [0, 7]}, "indices of"),
        ({"indices": [[0], [7], [9]]}, "indices of"),
        ({"indices": [0, 7, 14], "dims": (-5, -3)}, "negative dimension"),
        ({"indices": [0, 7, 14], "dims": (1 << 40, 1 << 20)}, "at most"),
        ({"indices": [0.0, 7.0, 14.0]}, "no int64"),
    ],
    ids=str,
)
def test_damaged_ones_are_refused_by_their_name(tmp_path, given, words):
    with pytest.raises(ModelError, match=words) as refusal:
        extract(save(tmp_path, made(**given)))
    assert "sparse initializer 'w'" in str(refusal.value)
