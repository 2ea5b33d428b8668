"""Images of bytes on their way in and out: pixels stay where they lie, whatever is cut out of them."""

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

CUTS = {
    "rows": ([2], [9999], [2], [1]),
    "last_rows": ([-3], [-1], [-2], [1]),
    "channels": ([1], [-2], [1], [3]),
    "corner": ([0, 1, 1], [5, 7, 4], [2, 1, -1], [2, 2, 1]),
    "turned": ([-1], [-9999], [3], [-1]),
}


@pytest.mark.parametrize("dtype", [TensorProto.INT8, TensorProto.UINT8])
def test_pixels_are_planes_cut_and_pixels_again(tmp_path: Path, dtype: int) -> None:
    """Transposes and slices of bytes, read as planes, as pixels and by more of their kind."""
    nodes = [helper.make_node("Transpose", ["x"], ["planes"], perm=[0, 3, 1, 2])]
    weights, outputs = [], ["planes"]
    for name, cut in CUTS.items():
        operands = [f"{name}_{place}" for place in range(4)]
        weights += [
            numpy_helper.from_array(np.array(value), operand)
            for value, operand in zip(cut, operands, strict=True)
        ]
        nodes += [
            helper.make_node("Slice", ["planes", *operands], [name]),
            helper.make_node("Transpose", [name], [f"{name}_pixels"], perm=[0, 2, 3, 1]),
            helper.make_node("Concat", [name, name], [f"{name}_twice"], axis=3),
        ]
        outputs += [name, f"{name}_pixels", f"{name}_twice"]
    nodes.append(helper.make_node("Transpose", ["planes"], ["again"], perm=[0, 2, 3, 1]))
    nodes.append(helper.make_node("Transpose", ["planes"], ["other"], perm=[0, 1, 3, 2]))
    outputs += ["again", "other"]
    shape = (2, 6, 5, 9)
    values = [helper.make_tensor_value_info("x", dtype, shape)]
    results = [helper.make_tensor_value_info(name, dtype, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", values, results, weights)
    path = tmp_path / "moves.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    data = np.random.default_rng().integers(0, 128, shape).astype(kind)
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    made = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(data))
    right = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})
    for name, found, expected in zip(outputs, made, right, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected, err_msg=name)
