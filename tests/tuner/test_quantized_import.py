import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from qdq_models import Qdq, kinds, run
from tiny_models import model, node, save

from bench.quantized_models import Style, quantized
from bench.quantized_small import SMALL
from compiler.intake.extract import extract
from compiler.load import load_partition, read_model
from kernels.workload.base import Conv2d, Epilogue, NarrowGemm
from kernels.workload.qconv2d import QConv2d

STYLES = {
    "qdq": Style(),
    "signed, one scale": Style("int8", per_channel=False),
    "unsigned weights": Style(weights="uint8", per_channel=False),
    "qoperator": Style(form="qoperator"),
}


@pytest.mark.parametrize("optimised", [False, True])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", SMALL)
def test_what_the_quantizer_writes_becomes_integers_alone(tmp_path, name, style, optimised):
    made = quantized(name, STYLES[style])
    read = read_model(save(tmp_path, made)).graph
    constants = {tensor.name: tensor for tensor in read.initializer}
    last = [each for each in read.node if each.op_type == "QuantizeLinear"][-1]
    quantum = float(numpy_helper.to_array(constants[last.input[1]]))
    # Where roundings in the middle differ, what follows may as well; what concats read is rounded once here.
    partition = run(tmp_path, made, quantum, optimised, share=0.3 if name == "concat" else 0.1)
    integers = {"qconv2d", "QAdd", "QMul", "QLookup", "QPool", "QConcat"}
    assert set(kinds(partition)) <= integers | {"Flatten", "Softmax"}
    assert partition.not_tunable == []


def test_extraction_lists_quantized_workloads_once(tmp_path):
    graph = Qdq()
    data = graph.through("x", 0.03, 120)
    for _ in range(3):
        conv = graph.add("Conv", [data, graph.weights((8, 8, 3, 3))], pads=[1] * 4)
        data = graph.through(conv, 0.03, 120)
    found = extract(save(tmp_path, graph.model({"x": (1, 8, 9, 9)}, [data])))
    (operator,) = found.operators
    assert operator.count == 3
    assert operator.workload.kind == "qconv2d"
    assert found.not_tunable == ()


CONVS = {
    "signed by channel": ({"dtype": np.int8}, {"axis": 0}, {}),
    "unsigned, one scale": ({"zero": 131}, {}, {}),
    "unsigned weights": ({"zero": 7}, {"dtype": np.uint8, "zero": 130}, {}),
    "unsigned weights by channel": ({"zero": 7}, {"dtype": np.uint8, "zero": 126, "axis": 0}, {}),
    "odd pads": ({"zero": 200}, {"axis": 0}, {"pads": [0, 2, 1, 1], "strides": [2, 1], "dilations": [1, 2]}),
    "same": ({"dtype": np.int8, "zero": -5}, {}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
}


@pytest.mark.parametrize("clamp", [None, "Relu", "Clip"])
@pytest.mark.parametrize("name", CONVS)
def test_convolutions(tmp_path, name, clamp):
    data, weights, attributes = CONVS[name]
    graph = Qdq()
    real = graph.through("x", 0.02, **data)
    bias = graph.constant(graph.rng.standard_normal(6).astype(np.float32))
    real = graph.add("Conv", [real, graph.weights((6, 4, 3, 3), **weights), bias], **attributes)
    if clamp == "Relu":
        real = graph.add("Relu", [real])
    if clamp == "Clip":
        bounds = [graph.constant(np.float32(value)) for value in (-0.5, 2.1)]
        real = graph.add("Clip", [real, *bounds])
    made = graph.model({"x": (2, 4, 8, 9)}, [graph.through(real, 0.05, 90)])
    partition = run(tmp_path, made, 0.05)
    assert kinds(partition) == {"qconv2d": 1}
    (product,) = partition.products
    assert isinstance(product.workload, QConv2d)
    assert product.workload.clamp == {None: None, "Relu": (90, 255), "Clip": (80, 132)}[clamp]
    # Unsigned weights are the same as signed ones, less their zero point; both have seven bits here.
    assert product.workload.weight_zero == 0
    assert product.workload.weight_range == (-64, 64)


def test_a_convolution_without_a_following_quantization_gives_sums(tmp_path):
    graph = Qdq()
    real = graph.through("x", 0.02, 120)
    bias = graph.dequantize(graph.constant(np.arange(6, dtype=np.int32) * 900), 0.003, 0, np.int32)
    real = graph.add("Conv", [real, graph.weights((6, 4, 3, 3), axis=0), bias])
    made = graph.model({"x": (1, 4, 8, 9)}, [graph.add("Tanh", [real]), real])
    # Biases are rounded to a quantum of the sums, at most 0.02 * 0.02 here.
    partition = run(tmp_path, made, 0.001)
    assert kinds(partition) == {"qconv2d": 1, "Tanh": 1}
    assert partition.products[0].workload.out_dtype == "int32"


MATMULS = {
    "matrix": ((5, 12), (12, 7)),
    "batch": ((2, 3, 12), (12, 7)),
    "four axes": ((2, 3, 4, 12), (12, 7)),
    "one matrix of a batch": ((2, 3, 12), (1, 12, 7)),
}


@pytest.mark.parametrize("requantized", [True, False])
@pytest.mark.parametrize("name", MATMULS)
def test_matrix_products(tmp_path, name, requantized):
    shape, weights = MATMULS[name]
    graph = Qdq()
    real = graph.through("x", 0.02, 120)
    real = graph.add("MatMul", [real, graph.weights(weights, axis=len(weights) - 1)])
    bias = graph.dequantize(graph.constant(np.arange(-3, 4, dtype=np.int8)), 0.5, 0, np.int8)
    real = graph.add("Add", [bias, real])
    real = graph.through(graph.add("Relu", [real]), 0.02) if requantized else real
    partition = run(tmp_path, graph.model({"x": shape}, [real]), 0.02 if requantized else 1e-3)
    reshapes = {"Reshape": 2} if len(shape) == 4 else {}
    assert kinds(partition) == {"qconv2d": 1, **reshapes}
    assert partition.products[0].workload.in_w == np.prod(shape[:-1])


@pytest.mark.parametrize("turned", [False, True])
def test_gemm_with_all_it_has(tmp_path, turned):
    graph = Qdq()
    real = graph.through("x", 0.02, 120)
    weights = graph.weights((7, 12) if turned else (12, 7), axis=0 if turned else 1)
    bias = graph.constant(graph.rng.standard_normal((1, 7)).astype(np.float32))
    attributes = {"transA": int(turned), "transB": int(turned), "alpha": 0.5, "beta": 2.0}
    real = graph.add("Gemm", [real, weights, bias], **attributes)
    shape = (12, 5) if turned else (5, 12)
    partition = run(tmp_path, graph.model({"x": shape}, [graph.through(real, 0.03, 100)]), 0.03)
    assert kinds(partition) == {"qconv2d": 1} | ({"Transpose": 1} if turned else {})


def test_a_bias_of_another_scale_is_requantized(tmp_path):
    graph = Qdq()
    real = graph.through("x", 0.02, 120)
    bias = graph.dequantize(graph.constant(np.arange(-3, 3, dtype=np.int8)), 0.4, 1, np.int8)
    real = graph.add("Conv", [real, graph.weights((6, 4, 3, 3), axis=0), bias])
    partition = run(tmp_path, graph.model({"x": (1, 4, 8, 9)}, [graph.through(real, 0.05, 90)]), 0.05)
    assert kinds(partition) == {"qconv2d": 1}


def test_a_bias_that_the_sums_cannot_hold_leaves_floats(tmp_path):
    graph = Qdq()
    real = graph.through("x", 1e-6, 120)
    bias = graph.constant(np.linspace(-90, 90, 6, dtype=np.float32))
    real = graph.add("Conv", [real, graph.weights((6, 4, 3, 3)), bias])
    partition = run(tmp_path, graph.model({"x": (1, 4, 8, 9)}, [graph.through(real, 1.0, 100)]), 1.0)
    assert partition.products[0].workload == Conv2d(1, 4, 8, 9, 6, 3, 3, epilogue=Epilogue(bias=True))


def test_weights_alone_quantized_are_floats_or_stay_for_few_rows(tmp_path):
    graph = Qdq()
    conv = graph.add("Conv", ["x", graph.weights((6, 4, 3, 3), axis=0)])
    flat = graph.add("Flatten", [graph.add("Relu", [conv])])
    turned = graph.add("Transpose", [graph.weights((5, 6 * 42), axis=0)], perm=[1, 0])
    made = graph.model({"x": (1, 4, 8, 9)}, [graph.add("MatMul", [flat, turned])])
    partition = run(tmp_path, made, 1e-4)
    assert [type(product.workload) for product in partition.products] == [Conv2d, NarrowGemm]
    assert kinds(partition) == {"conv2d": 1, "narrow_gemm": 1, "Flatten": 1}


def test_transposed_weights(tmp_path):
    graph = Qdq()
    turned = graph.add("Transpose", [graph.weights((7, 12), axis=0)])
    real = graph.add("MatMul", [graph.through("x", 0.02, 120), turned])
    partition = run(tmp_path, graph.model({"x": (5, 12)}, [graph.through(real, 0.03, 100)]), 0.03)
    assert kinds(partition) == {"qconv2d": 1}


def test_weights_quantized_in_the_graph(tmp_path):
    graph = Qdq()
    weights = graph.constant(graph.rng.standard_normal((4, 4, 3, 3)).astype(np.float32))
    weights = graph.through(weights, 0.05, 0, np.int8)
    real = graph.add("Conv", [graph.through("x", 0.02, 120), weights])
    partition = run(tmp_path, graph.model({"x": (1, 4, 8, 9)}, [graph.through(real, 0.1, 100)]), 0.1)
    assert kinds(partition) == {"qconv2d": 1}


def test_a_bias_behind_a_quantization_of_its_own(tmp_path):
    graph = Qdq()
    real = graph.add("MatMul", [graph.through("x", 0.02, 120), graph.weights((12, 7), axis=1)])
    bias = graph.dequantize(graph.constant(np.arange(-3, 4, dtype=np.int8)), 0.107, 0, np.int8)
    real = graph.add("Relu", [graph.add("Add", [graph.through(real, 0.0201, 100), bias])])
    partition = run(tmp_path, graph.model({"x": (5, 12)}, [graph.through(real, 0.0203)]), 0.0203)
    assert kinds(partition) == {"qconv2d": 1, "QAdd": 1}


def test_two_equal_quantizations_are_one(tmp_path):
    graph = Qdq()
    conv = graph.add("Conv", [graph.through("x", 0.02, 120), graph.weights((4, 4, 1, 1))])
    one, other = (graph.through(conv, 0.01, 128) for _ in range(2))
    made = graph.model({"x": (1, 4, 8, 9)}, [graph.through(graph.add("Add", [one, other]), 0.02, 128)])
    assert kinds(run(tmp_path, made, 0.02)) == {"qconv2d": 1, "QAdd": 1}


def test_a_result_that_others_read_stays_a_sum(tmp_path):
    graph = Qdq()
    conv = graph.add("Conv", [graph.through("x", 0.02, 120), graph.weights((4, 4, 1, 1))])
    made = graph.model({"x": (1, 4, 8, 9)}, [graph.through(conv, 0.01, 128), graph.add("Exp", [conv])])
    partition = run(tmp_path, made, 0.01)
    assert kinds(partition) == {"qconv2d": 1, "Exp": 1}


INTEGERS = {
    "matmul": ("MatMulInteger", (5, 12), (12, 7), 1, {}),
    "matmul of four axes": ("MatMulInteger", (2, 3, 4, 12), (12, 7), 1, {}),
    "conv": ("ConvInteger", (2, 4, 8, 9), (6, 4, 3, 3), 0, {}),
    "padded conv": ("ConvInteger", (2, 4, 8, 9), (6, 4, 3, 3), 0, {"pads": [1, 0, 2, 1], "strides": [1, 2]}),
    "depthwise": ("ConvInteger", (1, 6, 8, 9), (6, 1, 3, 3), 0, {"group": 6, "pads": [1] * 4}),
}


@pytest.mark.parametrize("zeros", ["none", "constant", "computed"])
@pytest.mark.parametrize("name", INTEGERS)
def test_integer_products(tmp_path, name, zeros):
    op, shape, weights, axis, attributes = INTEGERS[name]
    rng = np.random.default_rng(0)
    constants = {"w": rng.integers(-64, 64, weights).astype(np.int8)}
    nodes, inputs = [], ["x", "w"]
    if zeros == "constant":
        constants |= {"zx": np.uint8(17), "zw": np.full(weights[1] if axis else 1, 3, np.int8)}
        inputs += ["zx", "zw"]
    elif zeros == "computed":
        nodes = [node("DynamicQuantizeLinear", ["r"], ["x", "scale", "zx"])]
        inputs += ["zx"]
    nodes.append(node(op, inputs, "y", **attributes))
    source, kind = ("r", TensorProto.FLOAT) if zeros == "computed" else ("x", TensorProto.UINT8)
    made = model(nodes, {source: shape}, ["y"], constants, dtype=kind)
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    partition = run(tmp_path, made, 0.5)
    (product,) = partition.products
    assert product.workload.out_dtype == "int32"
    # Only padding has to know the zero point; elsewhere it is in the bias.
    padded = any(product.workload.pad)
    assert product.workload.data_zero == (17 if zeros == "constant" and padded else 0)
    assert partition.not_tunable == []


def test_dynamic_quantization_by_onnxruntime(tmp_path):
    nodes = [
        node("Conv", ["x", "w"], "c", pads=[1] * 4),
        node("Relu", ["c"], "r"),
        node("Flatten", ["r"], "f"),
        node("MatMul", ["f", "m"], "y"),
    ]
    path = save(tmp_path, model(nodes, {"x": (1, 4, 8, 9)}, ["y"], {"w": (6, 4, 3, 3), "m": (432, 10)}))
    quantize_dynamic(path, tmp_path / "quantized.onnx", weight_type=QuantType.QUInt8, reduce_range=True)
    found = extract(tmp_path / "quantized.onnx")
    assert [operator.workload.kind for operator in found.operators] == ["qconv2d", "qconv2d"]
    assert found.not_tunable == ()


NOT_TUNABLE = {
    "zero point for each row": {"zx": np.arange(5, dtype=np.uint8)},
    "too far apart": {"zw": np.array([0, 255] * 3 + [0], np.uint8)},
    "along another axis": {"zw": np.zeros(12, np.uint8)},
}


@pytest.mark.parametrize("reason", NOT_TUNABLE)
def test_integer_products_without_a_kernel_say_why(tmp_path, reason):
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 255, (12, 7)).astype(np.uint8)
    constants = {"w": weights, "zx": np.uint8(1), "zw": np.uint8(1)} | NOT_TUNABLE[reason]
    made = model(
        [node("MatMulInteger", ["x", "w", "zx", "zw"], "y")], {"x": (5, 12)}, ["y"], constants, dtype=2
    )
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    (entry,) = load_partition(save(tmp_path, made)).not_tunable
    assert reason in entry.reason


def test_products_come_in_the_order_of_the_graph(tmp_path):
    graph = Qdq()
    weights = [graph.constant(graph.rng.standard_normal((4, 4, 1, 1)).astype(np.float32)) for _ in range(2)]
    real = graph.through(graph.add("Conv", ["x", weights[0]]), 0.05, 120)
    real = graph.through(graph.add("Conv", [real, graph.weights((4, 4, 3, 3))]), 0.05, 120)
    made = graph.model({"x": (1, 4, 8, 9)}, [graph.add("Conv", [real, weights[1]])])
    partition = run(tmp_path, made, 0.3, share=1.0)
    assert [product.workload.kind for product in partition.products] == ["conv2d", "qconv2d", "conv2d"]
    indices = [each.attribute[0].i for each in partition.graph.nodes if each.op_type == "TilefleetProduct"]
    assert indices == [0, 1, 2]
