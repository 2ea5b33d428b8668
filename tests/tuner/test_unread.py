"""Nodes that nothing reads, in every kind of graph: they never refuse a model."""

import numpy as np
import pytest
from every_form import check
from onnx import TensorProto, helper
from tflite_compare import assert_same
from tiny_models import model, node, save

from bench.tflite_models import Maker
from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.readers.model_file import read_as_written
from tuner.backend.apply import build_model
from worker.measure.host import host_target

X = {"x": (2, 3)}


def kinds(path):
    return list(extract(path).census)


def unread(of, name):
    """A chain of what is refused alone: an operator of nobody's, and one of which data decide the size."""
    return [
        helper.make_node("Nothing", [of], [f"{name}.a"], domain="nobody"),
        node("Unique", [f"{name}.a"], f"{name}.b"),
        node("StringNormalizer", [f"{name}.b"], f"{name}.c"),
    ]


def graph(name, nodes, inputs, outputs):
    infos = [
        [helper.make_tensor_value_info(each, *kind) for each, kind in values.items()]
        for values in (inputs, outputs)
    ]
    return helper.make_graph(nodes, name, *infos)


ONE, TRUTH, ROWS = (TensorProto.INT64, []), (TensorProto.BOOL, []), (TensorProto.FLOAT, [3])


def chosen():
    branches = {
        f"{side}_branch": graph(
            side, [node(op, ["x"], f"{side}.y"), *unread("x", side)], {}, {f"{side}.y": ROWS}
        )
        for side, op in (("then", "Relu"), ("else", "Neg"))
    }
    decides = [node("ReduceSum", ["x"], "sum", keepdims=0), node("Greater", ["sum", "zero"], "positive")]
    return [*decides, node("If", ["positive"], "y", **branches)]


def looped():
    inside = [node("Add", ["state", "x"], "next"), node("Identity", ["going"], "on")]
    inside += [node("Neg", ["state"], "also"), *unread("state", "body")]
    body = graph(
        "body",
        inside,
        {"turn": ONE, "going": TRUTH, "state": (TensorProto.FLOAT, [2, 3])},
        {"on": TRUTH, "next": (TensorProto.FLOAT, [2, 3]), "body.c": (TensorProto.FLOAT, None)},
    )
    return [node("Loop", ["three", "", "x"], ["y", "rows"], body=body)]


def scanned():
    inside = [node("Add", ["state", "row"], "next"), node("Relu", ["next"], "out"), *unread("row", "body")]
    body = graph("body", inside, {"state": ROWS, "row": ROWS}, {"next": ROWS, "out": ROWS})
    return [node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)]


CONSTANTS = {"zero": np.float32(0), "three": np.array(3), "start": np.ones(3, np.float32)}
GRAPHS = {
    "main": lambda: [node("Relu", ["x"], "y"), *unread("x", "main")],
    "if": chosen,
    "loop": looped,
    "scan": scanned,
    "shape": lambda: [
        node("RandomNormalLike", ["x"], "noise"),
        node("Shape", ["noise"], "shape"),
        node("Reshape", ["x", "shape"], "y"),
    ],
}


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("name", GRAPHS)
def test_what_nothing_reads_is_not_there(tmp_path, name):
    path = save(tmp_path, model(GRAPHS[name](), X, ["y"], CONSTANTS))
    found = kinds(path)
    assert not {"Nothing", "Unique", "StringNormalizer", "RandomNormalLike"} & set(found)
    build_model(path, {}, host_target())


def test_what_is_read_is_refused_still(tmp_path):
    for name in ("main.a", "main.b", "main.c"):
        with pytest.raises(ModelError, match="Nothing"):
            extract(save(tmp_path, model(GRAPHS["main"](), X, ["y", name], CONSTANTS)))


@pytest.mark.usefixtures("avx2")
@pytest.mark.timeout(300)
def test_every_form_leaves_them_out(tmp_path):
    made = model(
        [node("MatMul", ["x", "w"], "y"), node("Unique", ["x"], "u"), node("Optional", ["u"], "o")],
        X,
        ["y"],
        {"w": (3, 5)},
    )
    check(tmp_path, made, {"x": np.random.default_rng().random((2, 3), np.float32)})


def test_functions_with_such_nodes(tmp_path):
    made = model(
        [
            helper.make_node("Part", ["x"], ["y"], domain="own"),
            helper.make_node("Bad", ["x"], ["z"], domain="own"),
        ],
        X,
        ["y"],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("nobody", 1)]
    body = [node("Relu", ["a"], "b"), *unread("a", "function")]
    made.functions.append(helper.make_function("own", "Part", ["a"], ["b"], body, imports))
    endless = helper.make_node("Bad", ["a"], ["b"], domain="own")
    made.functions.append(helper.make_function("own", "Bad", ["a"], ["b"], [endless], imports))
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.opset_import.append(helper.make_opsetid("nobody", 1))
    assert kinds(save(tmp_path, made)) == ["Relu"]


def test_last_results_that_nothing_reads(tmp_path):
    """MaxPool cannot say places with this dilation, and nobody asks for them."""
    made = model(
        [node("MaxPool", ["x"], ["y", "places"], kernel_shape=[2, 2], dilations=[2, 2])],
        {"x": (1, 1, 7, 7)},
        ["y"],
    )
    path = save(tmp_path, made)
    assert [list(each.output) for each in read_as_written(path).graph.node] == [["y"]]
    splits = model([node("Split", ["x"], ["y", "rest"], axis=0)], X, ["y"], opset=13)
    assert len(read_as_written(save(tmp_path, splits)).graph.node[0].output) == 2


def test_operators_of_tflite(tmp_path):
    make = Maker()
    x = make.input((1, 4, 4, 3))
    result = make.dense(make.like("RESHAPE", x, (1, 48), [make.numbers(1, 48)], newShape=[1, 48]), 5)
    lonely = make.operator("BUCKETIZE", [x], (1, 4, 4, 3), dtype="int32", boundaries=[0.0])
    make.operator("NEG", [lonely], (1, 4, 4, 3), dtype="int32")
    data = make.file(result)
    assert_same(data)
