import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from tiny_models import LIGHT, LIGHT_MODELS, model, node, save

from compiler.intake.extract import extract, extract_child
from compiler.intake.extraction import Extraction
from compiler.ir.checks import ModelError
from compiler.load import load_graph, load_partition
from kernels.workload.base import RELU, Conv2d, Epilogue, Gemm


@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_every_convolution_of_the_model_zoo_graphs_is_extracted(name):
    path = LIGHT / f"{name}.onnx"
    nodes = [node.op_type for node in onnx.load(path).graph.node]
    found = extract(path)
    counts = {
        kind: sum(o.count for o in found.operators if o.workload.kind == kind) for kind in ("conv2d", "gemm")
    }
    assert counts == {"conv2d": nodes.count("Conv"), "gemm": nodes.count("Gemm")}
    assert found.not_tunable == ()


def test_there_are_nine_model_zoo_graphs():
    assert len(LIGHT_MODELS) == 9


def test_resnet_50_comes_out_as_its_blocks_are():
    operators = {str(o.workload): o.count for o in extract(LIGHT / "light_resnet50.onnx").operators}
    # Batch norm, the residual and relu are all part of the product, so equal blocks look equal.
    assert operators["conv 64x56x56 -> 256, 1x1 +bias +residual +relu"] == 3
    assert operators["conv 256x14x14 -> 1024, 1x1 +bias +residual +relu"] == 6
    assert operators["conv 512x7x7 -> 512, 3x3 +bias +relu"] == 2
    assert operators["gemm 1x2048 by 2048x1000 +bias"] == 1


def test_json_says_the_same_again(tmp_path):
    path = LIGHT / "light_squeezenet.onnx"
    found = extract(path)
    read_back = json.loads(json.dumps(extract_child({"path": str(path)})))
    assert Extraction.from_json(read_back) == found
    assert read_back["flops"] == found.flops == sum(o["flops"] * o["count"] for o in read_back["operators"])


def only(tmp_path, made, shapes=None):
    """The one workload of a model."""
    found = extract(save(tmp_path, made), shapes)
    assert found.not_tunable == ()
    (operator,) = found.operators
    assert operator.count == 1
    return operator.workload


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"pads": [1, 0, 2, 3]}, {"pad": (1, 0, 2, 3)}),
        ({"strides": [2, 1], "dilations": [1, 2]}, {"stride": (2, 1), "dilation": (1, 2)}),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"pad": (0, 1, 1, 1), "stride": (2, 2)}),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, {"pad": (1, 1, 0, 1), "stride": (2, 2)}),
        ({"auto_pad": "VALID"}, {"pad": (0, 0, 0, 0)}),
    ],
)
def test_convolution_attributes(tmp_path, attributes, expected):
    made = model(
        [node("Conv", ["x", "w"], "y", **attributes)], {"x": (1, 4, 8, 9)}, ["y"], {"w": (6, 4, 3, 3)}
    )
    conv = Conv2d(1, 4, 8, 9, 6, 3, 3, **expected)
    assert only(tmp_path, made) == conv
    inferred = onnx.shape_inference.infer_shapes(made).graph.output[0].type.tensor_type.shape
    assert conv.out_shape == tuple(d.dim_value for d in inferred.dim)


def test_groups(tmp_path):
    made = model([node("Conv", ["x", "w"], "y", group=4)], {"x": (2, 4, 8, 8)}, ["y"], {"w": (8, 1, 3, 3)})
    assert only(tmp_path, made) == Conv2d(2, 4, 8, 8, 8, 3, 3, groups=4)


@pytest.mark.parametrize(
    ("attributes", "x", "w"),
    [({}, (3, 5), (5, 7)), ({"transB": 1}, (3, 5), (7, 5)), ({"transA": 1, "transB": 1}, (5, 3), (7, 5))],
)
def test_gemm_with_transposes(tmp_path, attributes, x, w):
    made = model(
        [node("Gemm", ["x", "w", "c"], "y", alpha=0.5, beta=2.0, **attributes)],
        {"x": x},
        ["y"],
        {"w": w, "c": (7,)},
    )
    assert only(tmp_path, made) == Gemm(3, 7, 5, epilogue=Epilogue(bias=True))


def test_names_of_the_model_are_its_own(tmp_path):
    shared = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    nodes = [node("Gemm", [data, "a/weights"], out, transB=1) for data, out in (("x", "a"), ("a", "y"))]
    made = model(nodes, {"x": (3, 5)}, ["y"], {"a/weights": shared})
    products = load_partition(save(tmp_path, made)).products
    assert len(products) == 2
    for product in products:
        np.testing.assert_array_equal(product.weights(), shared.T)


def test_matmul_flattens_leading_axes(tmp_path):
    nodes = [node("MatMul", ["x", "w"], "p"), node("Add", ["b", "p"], "s"), node("Relu", ["s"], "y")]
    made = model(nodes, {"x": (2, 3, 4, 5)}, ["y"], {"w": (5, 7), "b": (7,)})
    assert only(tmp_path, made) == Gemm(24, 7, 5, epilogue=Epilogue(bias=True, clamp=RELU))


CONV = node("Conv", ["x", "w"], "p", pads=[1, 1, 1, 1])
EPILOGUES = {
    "bias": ([node("Add", ["p", "b"], "y")], Epilogue(bias=True)),
    "sub": ([node("Sub", ["p", "b"], "y")], Epilogue(bias=True)),
    "scale": ([node("Mul", ["p", "b"], "q"), node("Add", ["q", "b"], "y")], Epilogue(bias=True)),
    "scalar": ([node("Div", ["p", "two"], "y")], Epilogue()),
    "batch norm": (
        [node("BatchNormalization", ["p", "v", "v", "v", "v"], "q"), node("Relu", ["q"], "y")],
        Epilogue(bias=True, clamp=RELU),
    ),
    "clip inputs": ([node("Clip", ["p", "zero", "six"], "y")], Epilogue(clamp=(0.0, 6.0))),
    "clip max only": ([node("Clip", ["p", "", "six"], "y")], Epilogue(clamp=(None, 6.0))),
    "largest and least": (
        [node("Max", ["p", "zero"], "q"), node("Min", ["six", "q"], "y")],
        Epilogue(clamp=(0.0, 6.0)),
    ),
    "clamps that exclude each other": (
        [node("Min", ["p", "zero"], "q"), node("Clip", ["q", "two", "six"], "y")],
        Epilogue(clamp=(2.0, 2.0)),
    ),
    "residual": (
        [node("Add", ["x", "p"], "q"), node("Relu", ["q"], "y")],
        Epilogue(residual=True, clamp=RELU),
    ),
    "bias after residual": (
        [node("Add", ["x", "p"], "q"), node("Add", ["q", "b"], "y")],
        Epilogue(bias=True, residual=True),
    ),
    "dropout": ([node("Dropout", ["p"], "q"), node("Relu", ["q"], "y")], Epilogue(clamp=RELU)),
    "sum": ([node("Sum", ["x", "p"], "y")], Epilogue(residual=True)),
    # What must not be taken in:
    "scale after relu": ([node("Relu", ["p"], "q"), node("Mul", ["q", "b"], "y")], Epilogue(clamp=RELU)),
    "scale after residual": (
        [node("Add", ["x", "p"], "q"), node("Mul", ["q", "b"], "y")],
        Epilogue(residual=True),
    ),
    "itself": ([node("Add", ["p", "p"], "y")], Epilogue()),
    "broadcast residual": ([node("Add", ["p", "row"], "y")], Epilogue()),
    "per-pixel bias": ([node("Add", ["p", "map"], "y")], Epilogue()),
    "empty clip": ([node("Clip", ["p", "six", "zero"], "y")], Epilogue()),
    "read twice": ([node("Relu", ["p"], "q"), node("Add", ["p", "q"], "y")], Epilogue()),
}
EPILOGUE_CONSTANTS = {
    "w": (4, 4, 3, 3),
    "b": (4, 1, 1),
    "v": np.full(4, 0.5, np.float32),
    "map": (6, 6),
    "zero": np.float32(0),
    "two": np.float32(2),
    "six": np.float32(6),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogue(tmp_path, name):
    nodes, expected = EPILOGUES[name]
    made = model([CONV, *nodes], {"x": (1, 4, 6, 6), "row": (1, 4, 1, 6)}, ["y"], EPILOGUE_CONSTANTS)
    assert only(tmp_path, made).epilogue == expected


def test_clip_with_attributes(tmp_path):
    nodes = [CONV, node("Clip", ["p"], "y", min=-1.0, max=1.0)]
    made = model(nodes, {"x": (1, 4, 6, 6)}, ["y"], {"w": (4, 4, 3, 3)}, opset=10)
    assert only(tmp_path, made).epilogue == Epilogue(clamp=(-1.0, 1.0))


def test_a_graph_output_is_not_hidden_inside_a_product(tmp_path):
    made = model([CONV, node("Relu", ["p"], "y")], {"x": (1, 4, 6, 6)}, ["p", "y"], {"w": (4, 4, 3, 3)})
    assert only(tmp_path, made).epilogue == Epilogue()


def test_of_two_added_products_the_deeper_one_takes_the_residual(tmp_path):
    nodes = [
        node("Conv", ["x", "w1"], "shortcut"),
        node("Conv", ["x", "w1"], "hidden"),
        node("Relu", ["hidden"], "hidden_relu"),
        node("Conv", ["hidden_relu", "w3"], "main", pads=[1, 1, 1, 1]),
        node("Add", ["shortcut", "main"], "y"),
    ]
    found = extract(
        save(tmp_path, model(nodes, {"x": (1, 4, 6, 6)}, ["y"], {"w1": (4, 4, 1, 1), "w3": (4, 4, 3, 3)}))
    )
    by_nodes = {names: o.workload.epilogue for o in found.operators for names in o.nodes}
    assert by_nodes["main", "y"] == Epilogue(residual=True)
    assert by_nodes[("shortcut",)] == Epilogue()


def test_shapes_computed_from_shapes_are_followed(tmp_path):
    nodes = [
        node("Shape", ["x"], "shape"),
        node("Gather", ["shape", "first"], "n", axis=0),
        node("Unsqueeze", ["n", "axis"], "n1"),
        node("Concat", ["n1", "rest"], "to", axis=0),
        node("Reshape", ["x", "to"], "flat"),
        node("MatMul", ["flat", "w"], "y"),
    ]
    constants = {"first": np.int64(0), "axis": np.array([0]), "rest": np.array([-1]), "w": (48, 5)}
    made = model(nodes, {"x": ("N", 3, 4, 4)}, ["y"], constants)
    assert only(tmp_path, made, {"x": [2, 3, 4, 4]}) == Gemm(2, 5, 48)


@pytest.mark.parametrize(
    ("part", "extents"),
    [({"start": 0}, [2, 3, 4, 5]), ({"start": -3, "end": 2}, [3]), ({"end": -2}, [2, 3]), ({"start": 9}, [])],
)
def test_a_part_of_a_shape(tmp_path, part, extents):
    made = model([node("Shape", ["x"], "shape", **part)], {"x": ("N", 3, 4, 5)}, ["shape"])
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    known = load_graph(save(tmp_path, made), {"x": [2, 3, 4, 5]}).constants["shape"]
    assert known.tolist() == extents


def test_parts_of_a_shape(tmp_path):
    """As tf.signal.frame takes a shape apart: what is before its axis, that, and nothing behind it."""
    nodes = [
        node("Shape", ["x"], "shape"),
        node("Split", ["shape", "parts"], ["before", "axis", "behind"], axis=0),
        node("Concat", ["before", "two", "half", "behind"], "to", axis=0),
        node("Reshape", ["x", "to"], "y"),
    ]
    constants = {"parts": np.array([1, 1, 0]), "two": np.array([2]), "half": np.array([-1])}
    made = model(nodes, {"x": ("N", 12)}, ["y"], constants)
    assert load_graph(save(tmp_path, made), {"x": [3, 12]}).tensors["y"].shape == (3, 2, 6)


@pytest.mark.parametrize("axis", [np.int64(0), np.array([0])], ids=str)
def test_running_sums_of_constants_take_their_axis_as_a_list_too(tmp_path, axis):
    nodes = [node("Shape", ["x"], "shape"), node("CumSum", ["shape", "axis"], "sums")]
    made = model(nodes, {"x": ("N", 3, 4)}, ["sums"], {"axis": axis})
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    assert load_graph(save(tmp_path, made), {"x": [2, 3, 4]}).constants["sums"].tolist() == [2, 5, 9]


NOT_TUNABLE = {
    "operand is a vector": ([node("MatMul", ["x", "w"], "y")], (4, 4), {"w": (4,)}),
    "weights are computed": (
        [node("Relu", ["x"], "r"), node("Conv", ["x", "r"], "y")],
        (2, 2, 3, 3),
        {},
    ),
    "scales an activation by beta": (
        [node("Gemm", ["x", "w", "x"], "y", beta=2.0)],
        (4, 4),
        {"w": (4, 4)},
    ),
}


@pytest.mark.parametrize("reason", NOT_TUNABLE)
def test_what_no_kernel_computes_is_listed_with_the_reason(tmp_path, reason):
    nodes, shape, constants = NOT_TUNABLE[reason]
    found = extract(save(tmp_path, model(nodes, {"x": shape}, ["y"], constants)))
    assert found.operators == ()
    (entry,) = found.not_tunable
    assert reason in entry.reason
    assert entry.node == "y"


def test_products_of_activations_are_tuned(tmp_path):
    nodes = [
        node("MatMul", ["x", "x"], "square"),
        node("MatMul", ["w", "square"], "left"),
        node("MatMul", ["left", "batch"], "y"),
        node("MatMul", ["square", "x"], "z"),
    ]
    made = model(nodes, {"x": (2, 4, 4)}, ["y", "z"], {"w": (2, 3, 4), "batch": (2, 4, 3)})
    found = extract(save(tmp_path, made))
    assert found.not_tunable == ()
    assert [(str(each.workload), each.count) for each in found.operators] == [
        ("matmul 2x 4x4 by 4x4", 2),
        ("matmul 2x 3x4 by 4x4", 1),
        ("matmul 2x 3x4 by 4x3", 1),
    ]
    assert found.operators[0].nodes == (("square",), ("z",))
    assert Extraction.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_integers_without_constant_weights_are_refused_with_the_reason(tmp_path):
    nodes = [node("ConvInteger", ["x", "x"], "y")]
    made = model(nodes, {"x": (4, 4, 6, 6)}, ["y"], dtype=TensorProto.UINT8)
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    with pytest.raises(ModelError, match=r"ConvInteger \(node 'y': .*weights are computed"):
        extract(save(tmp_path, made))


def test_what_a_build_would_fail_at_is_refused_before_anything_is_tuned(tmp_path):
    """All operators that nothing computes; else all nodes that TVM's converters do not take, each by name."""
    nodes = [CONV, node("LpNormalization", ["p"], "q"), node("Det", ["q"], "y")]
    made = model(nodes, {"x": (1, 4, 6, 6)}, ["y"], {"w": (4, 4, 3, 3)})
    words = r"LpNormalization \(node 'q'\), Det \(node 'y'\); export the model without them"
    with pytest.raises(ModelError, match=words):
        extract(save(tmp_path, made))
    nodes = [CONV, node("Cast", ["p"], "s", to=8)]
    nodes.insert(1, node("MaxPool", ["p"], ["m", "i"], kernel_shape=[2, 2], storage_order=1))
    nodes += [node("Relu", ["p"], "y")]
    made = model(nodes, {"x": (1, 4, 6, 6)}, ["i", "s", "y"], {"w": (4, 4, 3, 3)})
    for output, kind in zip(made.graph.output, (TensorProto.INT64, TensorProto.STRING), strict=False):
        output.type.tensor_type.elem_type = kind
    nodes[3].name = made.graph.node[3].name = ""
    with pytest.raises(ModelError) as error:
        extract(save(tmp_path, made))
    for words in (
        "'m' (MaxPool)",
        "'s' (Cast) computes with strings",
        "export the model without",
    ):
        assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_initializers_listed_as_inputs_are_no_inputs(tmp_path):
    made = model(
        [CONV], {"x": (1, 4, 6, 6), "w": (4, 4, 3, 3)}, ["p"], {"w": (4, 4, 3, 3)}, ir_version=3, opset=9
    )
    found = extract(save(tmp_path, made))
    assert [(i.name, i.shape) for i in found.inputs] == [("x", (1, 4, 6, 6))]
    assert len(found.operators) == 1
