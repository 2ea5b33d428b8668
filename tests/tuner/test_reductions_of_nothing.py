"""Reductions over an axis without elements: what ONNX says, not what was in memory."""

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import helper
from tiny_models import model, node, save
from tvm import relax

from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

KINDS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_they_are_what_onnxruntime_has(tmp_path, dtype):
    nodes = [node("Slice", ["x", "three", "three", "axis"], "none")]
    nodes += [node(f"Reduce{kind}", ["none", "axis"], kind) for kind in KINDS]
    constants = {"three": np.array([3]), "axis": np.array([0])}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = model(nodes, {"x": (3, 10)}, [*KINDS], constants, opset=18, dtype=kind)
    path = save(tmp_path, made)
    data = np.full((3, 10), 7, dtype)
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    found = run(relax.VirtualMachine(executable, tvm.cpu())["main"], {"x": data})
    wanted = onnxruntime.InferenceSession(path).run(None, {"x": data})
    for name, ours, right in zip(KINDS, found, wanted, strict=True):
        assert (ours.shape, ours.dtype) == (right.shape, right.dtype)
        np.testing.assert_array_equal(ours, right, err_msg=name)
