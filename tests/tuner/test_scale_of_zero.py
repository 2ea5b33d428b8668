"""Scales that say nothing, of filters without weights: the results are onnxruntime's and LiteRT's."""

import numpy as np
import pytest
from qdq_models import Qdq, run
from tflite_compare import assert_same
from tiny_models import model, node, save

from bench.tflite_models import Maker
from compiler.ir.checks import ModelError
from compiler.load import load_partition
from compiler.readers.tflite.convert import to_onnx

NOTHING = {"zero": 0.0, "minus zero": -0.0, "underflow": 1e-44}
"""Scales by which float32 makes 0 of every product of data of a scale of 0.02."""


def _weights(graph, shape, scale, axis=None, dead=(2, 5)):
    """Seven bits; the ``dead`` along ``axis`` have this scale, or all."""
    quanta = graph.rng.integers(-64, 64, shape).astype(np.int8)
    if axis is None:
        return graph.dequantize(graph.constant(quanta), scale, 0, np.int8)
    scales = graph.rng.uniform(0.005, 0.02, shape[axis]).astype(np.float32)
    scales[list(dead)] = scale
    zeros = np.zeros(shape[axis])
    return graph.dequantize(graph.constant(quanta), scales, zeros, np.int8, axis=axis)


@pytest.mark.parametrize("bias", [None, "floats", "large floats", "of the sums", "of its own"])
@pytest.mark.parametrize("scale", NOTHING)
def test_a_dead_filter_is_its_bias_and_the_layer_stays_integers(tmp_path, scale, bias):
    graph, filters = Qdq(), 8
    weights = _weights(graph, (filters, 4, 3, 3), NOTHING[scale], axis=0)
    inputs = [graph.through("x", 0.02, 120), weights]
    real = graph.rng.normal(0, 0.5, filters).astype(np.float32)
    if bias == "floats":
        inputs.append(graph.constant(real))
    if bias == "large floats":
        inputs.append(graph.constant(real * 40))
    if bias == "of the sums":
        scales = graph.constants[graph.nodes[0].input[1]] * np.float32(0.02)
        quanta = graph.rng.integers(-900, 900, filters).astype(np.int32)
        inputs.append(graph.dequantize(graph.constant(quanta), scales, np.zeros(filters), np.int32, axis=0))
    if bias == "of its own":
        quanta = graph.rng.integers(-90, 90, filters).astype(np.int32)
        inputs.append(graph.dequantize(graph.constant(quanta), 0.01, 0, np.int32))
    out = 0.05 if bias != "large floats" else 0.4
    y = graph.through(graph.add("Conv", inputs), out, 128)
    partition = run(tmp_path, graph.model({"x": (1, 4, 6, 6)}, [y]), out)
    (product,) = partition.products
    assert product.workload.kind == "qconv2d"
    assert product.workload.scale == "small"


@pytest.mark.parametrize("scale", NOTHING)
def test_a_dead_column_of_a_matrix(tmp_path, scale):
    graph = Qdq()
    weights = _weights(graph, (20, 8), NOTHING[scale], axis=1)
    y = graph.through(graph.add("MatMul", [graph.through("x", 0.02, 120), weights]), 0.05, 128)
    (product,) = run(tmp_path, graph.model({"x": (3, 20)}, [y]), 0.05).products
    assert product.workload.kind == "qconv2d"
    sums = Qdq()
    weights = _weights(sums, (20, 8), NOTHING[scale], axis=1)
    y = sums.add("MatMul", [sums.through("x", 0.02, 120), weights])
    run(tmp_path, sums.model({"x": (3, 20)}, [y]), 1e-3)


def test_a_layer_without_any_weight(tmp_path):
    graph = Qdq()
    bias = graph.constant(np.linspace(-3, 3, 8).astype(np.float32))
    inputs = [graph.through("x", 0.02, 120), _weights(graph, (8, 4, 3, 3), 0.0), bias]
    y = graph.through(graph.add("Conv", inputs), 0.05, 128)
    (product,) = run(tmp_path, graph.model({"x": (1, 4, 6, 6)}, [y]), 0.05).products
    assert product.workload.kind == "qconv2d"


def test_products_on_bytes(tmp_path):
    """QLinearConv and QLinearMatMul, whose biases have the scale of the sums: nothing of a dead filter."""
    rng = np.random.default_rng(0)
    scales = rng.uniform(0.001, 0.01, 8).astype(np.float32)
    scales[[1, 6]] = 0
    constants = {
        "xs": np.float32(0.02),
        "xz": np.uint8(7),
        "ys": np.float32(0.05),
        "yz": np.uint8(130),
        "ws": scales,
        "wz": np.zeros(8, np.int8),
        "w": rng.integers(-64, 64, (8, 4, 3, 3)).astype(np.int8),
        "m": rng.integers(-64, 64, (20, 8)).astype(np.int8),
        "b": rng.integers(-900, 900, 8).astype(np.int32),
    }
    for op, shape, names in (
        ("QLinearConv", (1, 4, 6, 6), ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]),
        ("QLinearMatMul", (3, 20), ["x", "xs", "xz", "m", "ws", "wz", "ys", "yz"]),
    ):
        held = {name: constants[name] for name in names[1:]}
        made = model([node(op, names, "y")], {"x": shape}, ["y"], held, opset=13, dtype=2)
        (product,) = run(tmp_path, made, 1).products
        assert product.workload.kind == "qconv2d"


def _kill(make, operand, filters):
    """Give these filters of the last operator's operand a scale of 0."""
    tensor = make.graph.tensors[make.graph.operators[-1].inputs[operand]]
    scales = tensor.quantization.scale.copy()
    scales[filters] = 0
    tensor.quantization.scale = scales


@pytest.mark.parametrize("layer", ["convolution", "depthwise", "dense"])
def test_a_dead_filter_of_tflite(layer):
    make = Maker("int8")
    data = make.input((3, 20) if layer == "dense" else (1, 7, 5, 8))
    if layer == "dense":
        result = make.dense(data, 10)
    else:
        result = make.convolution(
            data, *((6,) if layer == "convolution" else (0,)), depth=layer == "depthwise"
        )
    _kill(make, 1, [1, 3])
    _kill(make, 2, [1, 3])  # LiteRT wants it to be the product of the others
    assert_same(make.file(result))


def test_activations_of_tflite_need_scales(tmp_path):
    make = Maker("int8")
    data = make.input((1, 7, 5, 8))
    result = make.convolution(data, 6)
    make.graph.tensors[data].quantization.scale = np.zeros(1, np.float32)
    with pytest.raises(ModelError, match="'x' has a scale that is not a positive number"):
        to_onnx(make.file(result))


def test_a_negative_scale_of_weights_is_computed_in_floats(tmp_path):
    graph = Qdq()
    weights = _weights(graph, (8, 4, 3, 3), -0.01, axis=0)
    y = graph.through(graph.add("Conv", [graph.through("x", 0.02, 120), weights]), 0.05, 128)
    path = save(tmp_path, graph.model({"x": (1, 4, 6, 6)}, [y]))
    assert load_partition(path).products
    run(tmp_path, graph.model({"x": (1, 4, 6, 6)}, [y]), 0.05)
