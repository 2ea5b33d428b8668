"""Reductions over an axis without elements: what ONNX says, not what was in memory."""

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper
from tiny_models import model, node, save
from tvm import relax

from compiler.ir.checks import ModelError
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


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_there_is_no_place_among_them(tmp_path, op):
    made = model([node(op, ["x"], "y", axis=1, keepdims=0)], {"x": (2, 0)}, ["y"])
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(ModelError, match="without elements"):
        build_model(save(tmp_path, made), {}, CATALOGUE["x86-avx2"])


@pytest.mark.usefixtures("avx2")
def test_quanta_of_nothing_have_a_scale_of_one(tmp_path):
    made = model([node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], {"x": (2, 0)}, ["s"])
    executable, _ = build_model(save(tmp_path, made), {}, CATALOGUE["x86-avx2"])
    nothing = {"x": np.zeros((2, 0), np.float32)}
    (found,) = run(relax.VirtualMachine(executable, tvm.cpu())["main"], nothing)
    assert found == onnxruntime.InferenceSession(made.SerializeToString()).run(None, nothing)[0] == 1


@pytest.mark.usefixtures("avx2")
def test_nothing_written_into_a_tensor_leaves_it(tmp_path):
    places, updates = np.zeros((0, 3), np.int64), np.zeros((0, 3), np.float32)
    nodes = [node("ScatterElements", ["x", "p", "u"], "y")]
    made = model(nodes, {"x": (2, 3)}, ["y"], {"p": places, "u": updates})
    executable, _ = build_model(save(tmp_path, made), {}, CATALOGUE["x86-avx2"])
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = run(relax.VirtualMachine(executable, tvm.cpu())["main"], {"x": data})
    np.testing.assert_array_equal(found, data)
