import numpy as np
import pytest
from onnx import TensorProto, helper
from qdq_models import Qdq, kinds, run
from tiny_models import model, node, save

from compiler.ir.own_nodes import OPERATOR
from compiler.load import load_partition

SHAPE = (1, 6, 8, 9)


def only(tmp_path, graph, output, quantum, shape=SHAPE, share=0.02):
    """The kinds of nodes of a model of inputs ``x`` and perhaps ``z``."""
    inputs = {name: shape for name in ("x", "z") if any(name in each.input for each in graph.nodes)}
    return kinds(run(tmp_path, graph.model(inputs, [output]), quantum, share=share))


KINDS = {"Add": "QAdd", "Mul": "QMul"}


@pytest.mark.parametrize("op", KINDS)
@pytest.mark.parametrize("clamp", [None, "Relu"])
@pytest.mark.parametrize(("dtype", "zero"), [(np.uint8, 3), (np.int8, -100)])
def test_sums_and_products(tmp_path, op, clamp, dtype, zero):
    graph = Qdq()
    real = graph.add(op, [graph.through("x", 0.0203, 120), graph.through("z", 0.0307, 7, np.int8)])
    real = graph.add(clamp, [real]) if clamp else real
    assert only(tmp_path, graph, graph.through(real, 0.02, zero, dtype), 0.02) == {KINDS[op]: 1}


@pytest.mark.parametrize(("op", "quantum"), [("Add", 0.0311), ("Mul", 0.0211)])
@pytest.mark.parametrize("shape", [(9,), (6, 1, 1), (), SHAPE])
def test_sums_and_products_with_a_constant(tmp_path, op, quantum, shape):
    graph = Qdq()
    values = graph.constant(graph.rng.integers(0, 256, shape).astype(np.uint8))
    row = graph.dequantize(values, 0.0107, 130)
    real = graph.add(op, [row, graph.through("x", 0.0203, 120)])
    expected = {"QLookup": 1} if shape == () else {KINDS[op]: 1}
    assert only(tmp_path, graph, graph.through(real, quantum, 120), quantum) == expected


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("op", KINDS)
def test_a_number_for_each_plane(tmp_path, op, turned):
    graph = Qdq()
    gate = graph.through(graph.add("GlobalAveragePool", [graph.through("z", 0.02, 120)]), 0.0107, 128)
    operands = [graph.through("x", 0.02, 120), gate]
    real = graph.add(op, operands[::-1] if turned else operands)
    assert only(tmp_path, graph, graph.through(real, 0.02, 120), 0.02) == {"QPool": 1, KINDS[op]: 1}


@pytest.mark.parametrize("op", KINDS)
def test_shapes_that_are_no_planes_stay_floats(tmp_path, op):
    graph = Qdq()
    row = graph.through(graph.add("ReduceMax", [graph.through("z", 0.1, 3)], axes=[1]), 0.1, 3)
    real = graph.add(op, [graph.through("x", 0.02, 120), row])
    assert only(tmp_path, graph, graph.through(real, 0.02, 120), 0.02) == {op: 1, "ReduceMax": 1}


def test_sums_of_far_scales_stay_floats(tmp_path):
    graph = Qdq()
    real = graph.add("Add", [graph.through("x", 0.02, 120), graph.through("z", 0.02, 120)])
    made = graph.model({"x": SHAPE, "z": SHAPE}, [graph.through(real, 1e-12, 3)])
    assert kinds(load_partition(save(tmp_path, made))) == {"Add": 1}


UNARY = {
    "Sigmoid": ({}, 0.004),
    "HardSigmoid": ({"alpha": 0.3}, 0.004),
    "HardSwish": ({}, 0.02),
    "Tanh": ({}, 0.008),
    "LeakyRelu": ({"alpha": 0.2}, 0.01),
    "Elu": ({}, 0.01),
    "Softplus": ({}, 0.01),
    "Abs": ({}, 0.01),
}


@pytest.mark.parametrize("op", UNARY)
def test_functions_are_tables(tmp_path, op):
    attributes, quantum = UNARY[op]
    graph = Qdq()
    real = graph.add(op, [graph.through("x", 0.02, 3, np.int8)], **attributes)
    assert only(tmp_path, graph, graph.through(real, quantum, 100), quantum) == {"QLookup": 1}


def test_another_scale_is_a_table_and_the_same_is_nothing(tmp_path):
    graph = Qdq()
    real = graph.through(graph.through("x", 0.02, 120), 0.02, 120)
    assert only(tmp_path, graph, graph.through(real, 0.03, -8, np.int8), 0.03) == {"QLookup": 1}


def test_hard_swish_in_parts_is_one_table(tmp_path):
    graph = Qdq()
    real = graph.through("x", 0.02, 120)
    gate = graph.through(graph.add("HardSigmoid", [real], alpha=1 / 6), 0.004)
    assert only(tmp_path, graph, graph.through(graph.add("Mul", [real, gate]), 0.02, 20), 0.02) == {
        "QLookup": 1
    }


def test_arithmetic_with_numbers_is_a_table(tmp_path):
    graph = Qdq()
    real = graph.through("x", 0.02, 120)
    three = graph.dequantize(graph.constant(np.full((1, 1, 1, 1), 30, np.uint8)), 0.1)
    moved = graph.add("Add", [real, three])
    bounds = [graph.constant(np.float32(value)) for value in (0, 6)]
    moved = graph.add("Div", [graph.add("Clip", [moved, *bounds]), graph.constant(np.float32([6]))])
    assert only(tmp_path, graph, graph.through(moved, 0.004, 0), 0.004) == {"QLookup": 1}


def test_functions_of_two_tensors_stay_floats(tmp_path):
    graph = Qdq()
    real = graph.add("Div", [graph.through("x", 0.02, 120), graph.through("z", 0.02, 0)])
    made = graph.model({"x": SHAPE, "z": SHAPE}, [graph.through(real, 0.03, 120)])
    assert kinds(load_partition(save(tmp_path, made))) == {"Div": 1}


def test_functions_without_a_number_stay_floats(tmp_path):
    graph = Qdq()
    real = graph.add("Add", [graph.add("Sqrt", [graph.add("Abs", ["x"])]), "z"])
    real = graph.add("Log", [graph.through(real, 0.02, 0)])
    real = graph.add("Exp", [real])
    # log(0) is -inf, which is a number; the root of something negative is none.
    assert only(tmp_path, graph, graph.through(real, 0.02, 0), 0.02) == {
        "Abs": 1,
        "Sqrt": 1,
        "Add": 1,
        "QLookup": 1,
    }
    graph = Qdq()
    real = graph.through(graph.add("Sqrt", [graph.through("x", 0.02, 120)]), 0.02, 0)
    assert kinds(load_partition(save(tmp_path, graph.model({"x": SHAPE}, [real])))) == {"Sqrt": 1}


POOLS = {
    "MaxPool": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    "GlobalMaxPool": ("GlobalMaxPool", {}),
    "AveragePool": ("AveragePool", {"kernel_shape": [3, 3], "pads": [1] * 4}),
    "counted": ("AveragePool", {"kernel_shape": [2, 3], "pads": [0, 1, 1, 0], "count_include_pad": 1}),
    "GlobalAveragePool": ("GlobalAveragePool", {}),
    "ReduceMean": ("ReduceMean", {"axes": [-1, 2]}),
}


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("name", POOLS)
def test_pools(tmp_path, name, same):
    op, attributes = POOLS[name]
    quantum, zero = (0.02, 120) if same else (0.015, 60)
    graph = Qdq()
    real = graph.add(op, [graph.through("x", 0.02, 120)], **attributes)
    # Ties are rounded up here, to even there; means of few elements have many.
    found = only(tmp_path, graph, graph.through(real, quantum, zero), quantum, (2, 20, 8, 9), share=0.1)
    requantized = {} if same or "Max" not in op else {"QLookup": 1}
    assert found == {"QPool": 1, **requantized}


@pytest.mark.parametrize("axis", [1, -1, 0])
@pytest.mark.parametrize("same", [True, False])
def test_concats(tmp_path, axis, same):
    graph = Qdq()
    inputs = [
        graph.through("x", 0.02, 120),
        graph.through("z", *((0.02, 120) if same else (0.015, 0, np.int8))),
    ]
    real = graph.add("Concat", inputs, axis=axis)
    found = only(tmp_path, graph, graph.through(real, 0.02, 120), 0.02)
    assert found == {"QConcat": 1} | ({} if same else {"QLookup": 1})


def test_operators_of_constants_alone(tmp_path):
    graph = Qdq()
    ends = [graph.through(graph.add("Neg", [graph.weights(SHAPE)]), 0.0103, 120) for _ in range(2)]
    total = graph.through(graph.add("Add", ends), 0.0107, 120)
    real = graph.through(graph.add("Add", [graph.through("x", 0.02, 120), total]), 0.02, 120)
    assert only(tmp_path, graph, real, 0.02) == {"QAdd": 2}


def test_products_write_what_a_concat_wants(tmp_path):
    graph = Qdq()
    real = graph.through("x", 0.0203, 120)
    branches = [graph.add("Conv", [real, graph.weights((5, 6, 3, 3))]) for _ in range(2)]
    # The first can say no more than 255 * 0.007, and the concat keeps to that.
    fine = graph.through(graph.add("Relu", [branches[0]]), 0.0071, 0)
    coarse = graph.through(branches[1], 0.05, 3, np.int8)
    real = graph.through(graph.add("Concat", [fine, coarse], axis=1), 0.0307, 110)
    partition = run(tmp_path, graph.model({"x": SHAPE}, [real]), 0.0307)
    # The steps of the second are coarser, so it has to be rounded twice.
    assert kinds(partition) == {"qconv2d": 2, "QConcat": 1, "QLookup": 1}
    assert partition.products[0].workload.clamp == (110, 110 + round(255 * 0.0071 / 0.0307))


def test_a_clamp_behind_its_own_quantization_is_part_of_what_is_before(tmp_path):
    # As onnxruntime's quantizer writes it for symmetric activations.
    graph = Qdq()
    conv = graph.add("Conv", [graph.through("x", 0.0203, 0, np.int8), graph.weights((6, 6, 1, 1))])
    real = graph.add("Relu", [graph.through(conv, 0.0307, 0, np.int8)])
    real = graph.add("Add", [graph.through(real, 0.0307, 0, np.int8), graph.through("z", 0.02, 0, np.int8)])
    bounds = [graph.constant(np.float32(value)) for value in (-0.5, 1.5)]
    real = graph.add("Clip", [graph.through(real, 0.0351, 0, np.int8), *bounds])
    partition = run(
        tmp_path,
        graph.model({"x": SHAPE, "z": SHAPE}, [graph.through(real, 0.0402, 60)]),
        0.0402,
        share=0.2,
    )
    assert kinds(partition) == {"qconv2d": 1, "QAdd": 1}
    assert partition.products[0].workload.clamp == (0, 127)
    (added,) = partition.operators
    assert added.what.clamp == (60 - 12, 60 + 37)


def test_a_finer_quantization_behind_another_is_a_table(tmp_path):
    graph = Qdq()
    conv = graph.add("Conv", [graph.through("x", 0.0203, 0, np.int8), graph.weights((6, 6, 1, 1))])
    real = graph.add("Relu", [graph.through(conv, 0.0307, 0, np.int8)])
    assert only(tmp_path, graph, graph.through(real, 0.0107), 0.0107) == {"qconv2d": 1, "QLookup": 1}


def test_a_product_keeps_what_others_read_too(tmp_path):
    graph = Qdq()
    conv = graph.add("Conv", [graph.through("x", 0.0203, 120), graph.weights((5, 6, 3, 3))])
    fine = graph.through(conv, 0.0171, 100)
    real = graph.add("Concat", [fine, graph.through("z", 0.03, 0)], axis=1)
    made = graph.model({"x": SHAPE, "z": (1, 3, 6, 7)}, [graph.through(real, 0.031, 110), fine])
    assert kinds(run(tmp_path, made, 0.031))["QLookup"] == 2


MOVES = {
    "Reshape": ([np.array([0, -1])], {}),
    "Transpose": ([], {"perm": [0, 2, 3, 1]}),
    "Squeeze": ([np.array([0])], {}),
    "Unsqueeze": ([np.array([0])], {}),
    "Flatten": ([], {}),
    "Slice": ([np.array([1]), np.array([4]), np.array([2])], {}),
    "Gather": ([np.array([2, 0, 2])], {"axis": 1}),
    "Pad": ([np.array([0, 0, 1, 2, 0, 0, 0, 1])], {}),
    "DepthToSpace": ([], {"blocksize": 2}),
    "Tile": ([np.array([1, 2, 1, 1])], {}),
}


@pytest.mark.parametrize("op", MOVES)
def test_moves_are_done_with_bytes(tmp_path, op):
    constants, attributes = MOVES[op]
    graph = Qdq()
    real = graph.through("x", 0.02, 120)
    inputs = [real, *(graph.constant(value) for value in constants)]
    real = graph.through(graph.add(op, inputs, **attributes), 0.02, 120)
    made = graph.model({"x": (1, 8, 8, 9)}, [graph.through(real, 0.03, 100)])
    partition = run(tmp_path, made, 0.03)
    assert kinds(partition) == {op: 1, "QLookup": 1}
    (moved,) = (each for each in partition.graph.nodes if each.op_type == op)
    assert partition.graph.tensors[moved.input[0]].dtype == "uint8"


def test_split_and_padding_that_no_byte_is(tmp_path):
    graph = Qdq()
    pads, value = graph.constant(np.array([0, 0, 1, 1])), graph.constant(np.float32(0.013))
    padded = graph.add("Pad", [graph.through("x", 0.02, 120), pads, value])
    assert only(tmp_path, graph, graph.through(padded, 0.02, 120), 0.02, (6, 9)) == {"Pad": 1}
    graph = Qdq()
    real = graph.through("x", 0.02, 120)
    graph.nodes.append(node("Split", [real], ["one", "two"], axis=1))
    real = graph.add("Add", [graph.through("one", 0.02, 120), graph.through("two", 0.02, 120)])
    assert only(tmp_path, graph, graph.through(real, 0.03, 100), 0.03) == {"Split": 1, "QAdd": 1}


def test_operators_of_bytes_as_such(tmp_path):
    nodes = [
        node("MaxPool", ["x"], "p", kernel_shape=[2, 2]),
        node("Clip", ["p", "low", "high"], "c"),
        node("Concat", ["c", "p"], "y", axis=1),
    ]
    constants = {"low": np.uint8(10), "high": np.uint8(60)}
    made = model(nodes, {"x": SHAPE}, ["y"], constants, dtype=TensorProto.UINT8)
    assert kinds(run(tmp_path, made, 1.0, share=0)) == {"QPool": 1, "QLookup": 1, "QConcat": 1}


def test_a_quantized_input_and_output(tmp_path):
    graph = Qdq()
    real = graph.dequantize("x", 0.02, 20)
    output = graph.quantize(graph.add("Relu", [real]), 0.01, 0)
    made = graph.model({"x": SHAPE}, [output], dtype=TensorProto.UINT8)
    partition = run(tmp_path, made, 1.0)
    assert [each.op_type for each in partition.graph.nodes] == [OPERATOR]


def test_nothing_is_lost_that_is_an_output_too(tmp_path):
    graph = Qdq()
    quanta = graph.quantize("x", 0.02, 120)
    again = graph.quantize(graph.dequantize(quanta, 0.02, 120), 0.02, 120)
    real = graph.dequantize(again, 0.02, 120)
    made = graph.model({"x": SHAPE}, [again, real])
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.UINT8
    run(tmp_path, made, 0.02)


def microsoft(op, inputs, **attributes):
    return helper.make_node(op, inputs, ["y"], name="y", domain="com.microsoft", **attributes)


def parameters(*scales):
    """Scale and zero point of x, z and y."""
    found = {}
    for name, (scale, zero) in zip("xzy", scales, strict=False):
        found |= {f"{name}s": np.float32(scale), f"{name}z": np.uint8(zero)}
    return found


X, Z, Y = ["x", "xs", "xz"], ["z", "zs", "zz"], ["ys", "yz"]
QOPERATORS = {
    "QLinearAdd": (X + Z + Y, {}, {"QAdd": 1}),
    "QLinearMul": (X + Z + Y, {}, {"QMul": 1}),
    "QLinearConcat": (Y + X + Z, {"axis": 1}, {"QConcat": 1, "QLookup": 2}),
    "QLinearAveragePool": (X + Y, {"kernel_shape": [3, 3], "pads": [1] * 4}, {"QPool": 1}),
    "QLinearGlobalAveragePool": (X + Y, {}, {"QPool": 1}),
    "QLinearSigmoid": (X + Y, {}, {"QLookup": 1}),
    "QLinearLeakyRelu": (X + Y, {"alpha": 0.1}, {"QLookup": 1}),
    "QLinearSoftmax": (X + Y, {"axis": -1, "opset": 13}, {"Softmax": 1}),
}


@pytest.mark.parametrize("op", QOPERATORS)
def test_operators_of_onnxruntime(tmp_path, op):
    inputs, attributes, expected = QOPERATORS[op]
    out = {"QLinearSigmoid": (0.004, 3), "QLinearSoftmax": (1 / 256, 0)}.get(op, (0.0297, 3))
    constants = parameters((0.0301, 40), (0.04, 30), out)
    used = {name: (2, 6, 8, 9) for name in "xz" if name in inputs}
    made = model([microsoft(op, inputs, **attributes)], used, ["y"], constants, dtype=TensorProto.UINT8)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert kinds(run(tmp_path, made, 1.0)) == expected


@pytest.mark.parametrize("requantized", [True, False])
def test_qgemm(tmp_path, requantized):
    rng = np.random.default_rng(0)
    constants = {
        **parameters((0.03, 40), (0.01, 0), (0.1, 100)),
        "w": rng.integers(-64, 64, (7, 12)).astype(np.int8),
        "ws": rng.uniform(0.01, 0.02, 7).astype(np.float32),
        "wz": np.zeros(7, np.int8),
        "b": rng.integers(-9000, 9000, 7).astype(np.int32),
    }
    inputs = [*X, "w", "ws", "wz", "b", *(Y if requantized else [])]
    gemm = microsoft("QGemm", inputs, transB=1, alpha=0.5)
    made = model([gemm], {"x": (5, 12)}, ["y"], constants, dtype=TensorProto.UINT8)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    if not requantized:
        made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    partition = run(tmp_path, made, 1.0 if requantized else 1e-4)
    assert kinds(partition) == {"qconv2d": 1}
    # Biases are in quanta of the sums already; the zero point of the data is in them.
    bias = constants["b"] - 40 * constants["w"].sum(1, np.int32)
    np.testing.assert_array_equal(partition.products[0].constants[1], bias)


@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul"])
def test_operators_of_onnx(tmp_path, op):
    rng = np.random.default_rng(0)
    shape, weights = ((2, 4, 8, 9), (6, 4, 3, 3)) if op == "QLinearConv" else ((2, 5, 12), (12, 6))
    constants = {
        **parameters((0.03, 40), (0.01, 0), (0.1, 100)),
        "w": rng.integers(-64, 64, weights).astype(np.int8),
        "ws": rng.uniform(0.01, 0.02, 6).astype(np.float32),
        "wz": np.zeros(6, np.int8),
        "b": rng.integers(-9000, 9000, 6).astype(np.int32),
    }
    inputs = [*X, "w", "ws", "wz", *Y] + (["b"] if op == "QLinearConv" else [])
    made = model([node(op, inputs, "y")], {"x": shape}, ["y"], constants, dtype=TensorProto.UINT8)
    assert kinds(run(tmp_path, made, 1.0)) == {"qconv2d": 1}


def test_names_of_the_model_are_its_own(tmp_path):
    constants = {"s": np.float32(0.05), "z": np.uint8(120), "pool/scale": np.float32(0.2)}
    constants["pool/zero"] = np.uint8(30)
    nodes = [
        node("QuantizeLinear", ["pool/bytes", "s", "z"], "first"),
        node("DequantizeLinear", ["first", "s", "z"], "real"),
        node("MaxPool", ["real"], "pool", kernel_shape=[2, 2]),
        node("QuantizeLinear", ["pool", "pool/scale", "pool/zero"], "second"),
        node("DequantizeLinear", ["second", "pool/scale", "pool/zero"], "y"),
    ]
    made = model(nodes, {"pool/bytes": (1, 4, 8, 9)}, ["y"], constants)
    assert kinds(run(tmp_path, made, 0.2)) == {"QPool": 1, "QLookup": 1}
