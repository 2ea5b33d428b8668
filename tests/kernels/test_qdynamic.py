"""Products of data that are quantized as they come, and what quantizes them."""

import dataclasses
import random

import numpy as np
import onnxruntime
import pytest
import tvm
from guarded import guarded
from on_targets import AVX2, assembly_of
from onnx import TensorProto, helper
from qguarded import quanta_off, quanta_off_of

from kernels import registry
from kernels.emit.compile import compile_module
from kernels.int8.reference import random_inputs
from kernels.int8.x86.direct.kernel import QuantizedDirect
from kernels.int8.x86.instructions import WIDE
from kernels.operators.int8.dynamic import build_dynamic_quantize
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d, from_json, to_json

KERNEL = QuantizedDirect()
ROUNDING = 1e-6
ODD = [
    QConv2d(1, 1, 1, 1, 1, 1, 1, out_dtype="float32"),
    QConv2d(1, 1, 37, 50, 41, 1, 1, out_dtype="float32"),
    QConv2d(1, 1, 13, 30, 24, 1, 1, out_dtype="float32", weight_range=(-64, 64), data_dtype="int8"),
    QConv2d(1, 1, 5, 33, 9, 1, 1, out_dtype="float32", weight_dtype="uint8", weight_zero=7),
    QConv2d(1, 1, 7, 75, 19, 1, 1, out_dtype="float32", weight_zero=-9),
    QConv2d(1, 1, 6, 64, 19, 1, 1, data_dtype="int8", out_dtype="float32", weight_zero=5),
    QConv2d(1, 1, 1, 64, 100, 1, 1, out_dtype="float32", weight_range=(-127, 127)),
]


@pytest.mark.parametrize("conv", ODD, ids=str)
def test_dynamic_products_are_those_of_numpy(conv):
    assert from_json(to_json(conv)) == conv
    assert [kernel.name for kernel in registry.applicable(conv, AVX2)] == ["qdirect"]
    rng = random.Random(conv.key)
    space = KERNEL.space(conv, AVX2)
    for point in [KERNEL.recommend(conv, AVX2), *(space.sample(rng) for _ in range(3))]:
        assert quanta_off(KERNEL, conv, point, AVX2) < ROUNDING, point
    shared = KERNEL.space(conv, AVX2, threads=3)
    assert quanta_off(KERNEL, conv, shared.sample(rng), AVX2, threads=3) < ROUNDING


@pytest.mark.parametrize("multiply", WIDE)
def test_weights_of_eight_bits_by_few_instructions_are_exact(multiply):
    """Weights as networks have them, some of which fit together, and some with nothing but ends."""
    conv = QConv2d(1, 5, 7, 203, 25, 1, 1, out_dtype="int32", data_zero=3)
    rng = np.random.default_rng()
    inputs = random_inputs(conv, rng)
    inputs[1][..., :20] = np.rint(rng.normal(0, 30, (1, 1, 203, 20)).clip(-128, 127))
    configs = [config for config in KERNEL.space(conv, AVX2) if config["multiply"] == multiply]
    for config in random.Random(1).sample(configs, 3):
        assert quanta_off_of(KERNEL, conv, config, AVX2, inputs) == 0, config


@pytest.mark.parametrize(("deviation", "begins"), [(8, WIDE), (70, ("words",))])
def test_the_analysis_looks_at_weights(deviation, begins):
    """Large ones leave few sums that may begin in int16, whatever the zero point."""
    conv = QConv2d(1, 1, 16, 512, 128, 1, 1, out_dtype="float32", weight_zero=-9, weight_range=(-127, 127))
    weights = np.rint(np.random.default_rng().normal(-9, deviation, conv.weight_shape).clip(-127, 118))
    picked = KERNEL.recommend(conv, AVX2)
    assert picked["multiply"] in WIDE
    found = KERNEL.suited(conv, picked, AVX2, 1, weights.astype(np.int8))
    assert found["multiply"] in begins
    assert KERNEL.space(conv, AVX2).why_not(found) is None
    assert KERNEL.suited(conv, found, AVX2, 1, weights.astype(np.int8)) == found


def test_a_zero_point_of_the_weights_needs_no_ninth_bit():
    conv = QConv2d(1, 1, 7, 75, 19, 1, 1, out_dtype="float32", weight_zero=-9)
    assert {config["multiply"] for config in KERNEL.space(conv, AVX2)} == {"words", *WIDE}
    for multiply in WIDE:
        config = next(config for config in KERNEL.space(conv, AVX2) if config["multiply"] == multiply)
        for data in ("int8", "uint8"):
            assert quanta_off(KERNEL, dataclasses.replace(conv, data_dtype=data), config, AVX2) < ROUNDING


def test_machines_with_dot_products_use_them_whatever_the_zero_points():
    target = dataclasses.replace(AVX2, features=("+avxvnni",))
    conv = QConv2d(1, 1, 12, 64, 64, 1, 1, out_dtype="float32", weight_zero=-9)
    config = KERNEL.recommend(conv, target)
    assert config["multiply"] == "vnni"
    assert "vpdpbusd" in assembly_of(KERNEL, conv, config, target)


def test_dynamic_workloads_are_matrix_products_whose_sums_fit():
    for wrong in ({"kh": 3}, {"pad": (1, 0, 0, 0)}, {"data_zero": 3}, {"stride": (2, 1)}):
        with pytest.raises(ValueError, match="float32 output is a matrix product"):
            dataclasses.replace(QConv2d(1, 3, 3, 8, 8, 1, 1, out_dtype="float32"), **wrong)
    deep = QConv2d(1, 1, 1, 40000, 8, 1, 1, out_dtype="float32")
    inputs = random_inputs(deep, np.random.default_rng(0))
    inputs[1][...] = 127
    with pytest.raises(ValueError, match="may leave 32 bits"):
        KERNEL.constants(deep, KERNEL.recommend(deep, AVX2), AVX2, inputs)
    assert "quantized as they come" in registry.kernel("qdepthwise").why_not(ODD[0], CATALOGUE["rpi4"])


def onnxruntime_quantizes(data):
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "step", "zero"])
    kinds = {
        "y": (TensorProto.UINT8, data.shape),
        "step": (TensorProto.FLOAT, ()),
        "zero": (TensorProto.UINT8, ()),
    }
    outputs = [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, data.shape)]
    graph = helper.make_graph([node], "graph", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": data})


@pytest.mark.parametrize(("elements", "threads"), [(1, 1), (7, 1), (33, 1), (1000, 2), (40001, 3)])
def test_bytes_steps_and_zeros_are_those_of_onnxruntime(elements, threads):
    rng = np.random.default_rng()
    usual = rng.standard_normal(elements).astype(np.float32)
    function = build_dynamic_quantize(elements, AVX2, threads, "quantize")
    function = compile_module(function, AVX2)["quantize"]
    for data in (usual, np.abs(usual) + 1, -np.abs(usual) - 1, usual * 0, usual * np.float32(1e20)):
        out = [np.full(elements, 77, np.uint8), np.array(np.nan, np.float32), np.array(77, np.uint8)]
        buffers = [guarded(data), *map(guarded, out)]
        function(*map(tvm.runtime.from_dlpack, buffers))
        for ours, theirs in zip(buffers[1:], onnxruntime_quantizes(data), strict=True):
            assert np.array_equal(ours, theirs)
