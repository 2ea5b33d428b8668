"""Weights of 4, 8 and 16 bits as files have them: kept so for few rows, and the same floats."""

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from compiler.load import load_partition
from kernels.workload.base import Gemm, NarrowGemm
from tuner.backend.apply import build_model
from worker.measure.host import host_target

ROUNDING = 5e-6
RNG = np.random.default_rng()
K, N = 96, 21


def floats(*shape):
    return RNG.standard_normal(shape, np.float32)


def nbits(bits, block, zeros, **more):
    """MatMulNBits with the last block not full."""
    blocks = -(-K // block)
    constants = {
        "w": RNG.integers(0, 256, (N, blocks, block * bits // 8)).astype(np.uint8),
        "s": RNG.uniform(-1, 1, N * blocks).astype(np.float32),
        "b": floats(N),
    }
    if zeros:
        constants["z"] = RNG.integers(0, 256, (N, -(-blocks * bits // 8))).astype(np.uint8)
    inputs = ["x", "w", "s", "z" if zeros else "", "", "b"]
    sizes = {"K": K, "N": N, "bits": bits, "block_size": block, **more}
    return [helper.make_node("MatMulNBits", inputs, ["p"], domain="com.microsoft", **sizes)], constants


def blocked(dtype, block=16):
    """DequantizeLinear of ONNX 21 with blocks, or of whole columns."""
    quanta = RNG.integers(-8, 8, (K, N)).astype(dtype)
    shape = (K // block, N) if block else (N,)
    constants = {"w": quanta, "s": RNG.uniform(0.5, 1, shape).astype(np.float32)}
    more = {"block_size": block, "axis": 0} if block else {"axis": 1}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["r"], **more),
        helper.make_node("MatMul", ["x", "r"], ["p"]),
    ]
    return nodes, constants


def turned():
    """int8 weights alone, of uint8 with a zero point of each column, for a Gemm that turns them."""
    constants = {
        "w": RNG.integers(0, 256, (N, K)).astype(np.uint8),
        "s": RNG.uniform(0.5, 1, N).astype(np.float32),
        "z": RNG.integers(0, 256, N).astype(np.uint8),
        "b": floats(N),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["r"], axis=0),
        helper.make_node("Gemm", ["x", "r", "b"], ["p"], transB=1),
    ]
    return nodes, constants


CASES = {
    "MatMulNBits of 4": (lambda: nbits(4, 32, False), (4, 32, False)),
    "MatMulNBits of 4 with zeros": (lambda: nbits(4, 16, True), (4, 16, True)),
    "MatMulNBits of 8, last block in part": (lambda: nbits(8, 64, False), (8, 64, False)),
    "int4 in blocks": (lambda: blocked(ml_dtypes.int4), (4, 16, False)),
    "int8 in blocks": (lambda: blocked(np.int8, 32), (4, 32, False)),
    "int8 by column": (lambda: blocked(np.int8, 0), (4, K, False)),
    "uint8 by column, turned": (turned, (8, K, True)),
}


def save(tmp_path, nodes, constants, rows):
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Relu", ["p"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, K))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (rows, N))],
        tensors,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / f"model{rows}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def compared(path, data):
    """The largest difference from onnxruntime, relative to the largest value."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = onnxruntime.InferenceSession(str(path), options).run(None, {"x": data})
    executable, manifest = build_model(path, {}, host_target())
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()
    (layer,) = manifest.layers
    return np.abs(result - expected).max() / np.abs(expected).max(), layer


@pytest.mark.parametrize("name", CASES)
def test_weights_of_few_bits_stay_so_for_few_rows(tmp_path, name):
    make, (bits, block, zeros) = CASES[name]
    nodes, constants = make()
    error, layer = compared(save(tmp_path, nodes, constants, 3), floats(3, K))
    gemm = layer.workload
    assert isinstance(gemm, NarrowGemm)
    assert (gemm.bits, gemm.block, gemm.zeros) == (bits, block, zeros)
    assert gemm.epilogue.clamp == (0.0, None)
    assert error < ROUNDING
    (product,) = load_partition(save(tmp_path, nodes, constants, 40)).products
    assert isinstance(product.workload, Gemm)


@pytest.mark.parametrize(
    ("bits", "block", "zeros", "rows"), [(4, 32, False, 1), (4, 64, True, 40), (8, 16, True, 3)]
)
def test_data_become_int8_where_the_model_says_that_they_may(tmp_path, bits, block, zeros, rows):
    """As onnxruntime's accuracy level 4 rounds them, for any number of rows; at no other level."""
    for level in (4, 1):
        nodes, constants = nbits(bits, block, zeros, accuracy_level=level)
        path = save(tmp_path, nodes, constants, rows)
        (product,) = load_partition(path).products
        assert getattr(product.workload, "rounded", False) == (level == 4)
    nodes, constants = nbits(bits, block, zeros, accuracy_level=4)
    error, layer = compared(save(tmp_path, nodes, constants, rows), floats(rows, K))
    assert "data rounded to int8" in str(layer.workload)
    assert layer.workload.block == block
    assert error < ROUNDING


def test_float16_weights_stay_so_for_few_rows(tmp_path):
    weights = floats(K, 256).astype(np.float16)
    for rows, kind in ((2, NarrowGemm), (40, Gemm)):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, (rows, K))
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, (rows, 256))
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
        graph = helper.make_graph([node], "graph", [x], [y], [numpy_helper.from_array(weights, "w")])
        path = tmp_path / f"half{rows}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        (product,) = load_partition(path).products
        assert isinstance(product.workload, kind)
    data = floats(2, K).astype(np.float16)
    executable, _ = build_model(tmp_path / "half2.onnx", {}, host_target())
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()
    expected = data.astype(np.float32) @ weights.astype(np.float32)
    assert np.array_equal(result, expected.astype(np.float16)) or np.abs(result - expected).max() < 0.02


def test_weights_that_another_product_reads_too_are_right(tmp_path):
    nodes, constants = blocked(np.int8)
    nodes = [
        *nodes[:1],
        helper.make_node("MatMul", ["x", "r"], ["q"]),
        helper.make_node("MatMul", ["x", "r"], ["o"]),
    ]
    nodes.append(helper.make_node("Add", ["q", "o"], ["p"]))
    path = save(tmp_path, nodes, constants, 2)
    executable, _ = build_model(path, {}, host_target())
    data = floats(2, K)
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()
    (expected,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})
    assert np.abs(result - expected).max() < ROUNDING * np.abs(expected).max()
