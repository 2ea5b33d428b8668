import numpy as np
import pytest
from onnx import TensorProto, helper
from qdq_models import Qdq
from tiny_models import model, node, save

from compiler.ir.checks import ModelError
from compiler.load import load_partition

F, U, S = np.float32, np.uint8, np.int8


def refused(tmp_path, made, *words):
    with pytest.raises(ModelError) as error:
        load_partition(save(tmp_path, made))
    for word in words:
        assert word in str(error.value)


BAD = {
    "NaN": (F(np.nan), U(0), {}, "not all finite"),
    "infinite": (F(np.inf), U(0), {}, "not all finite"),
    "one of several": (F([0.1, 0.1, np.inf, 0.1]), np.zeros(4, U), {}, "not all finite"),
    "empty": (np.zeros(0, F), np.zeros(0, U), {}, "without elements"),
    "lengths differ": (np.ones(4, F), np.zeros(3, U), {}, "3 zero points for 4 scales"),
    "not the axis' length": (np.ones(3, F), np.zeros(3, U), {}, "along axis 1 of [1, 4, 6, 6]"),
    "no such axis": (np.ones(4, F), np.zeros(4, U), {"axis": 7}, "an axis from -4 to 3, as its data have 4"),
    "rank": (np.ones((2, 2), F), np.zeros((2, 2), U), {}, "scales of [2, 2]"),
    "another type": (F(0.1), S(0), {}, "int8"),
}


@pytest.mark.parametrize("name", BAD)
def test_quantizations_that_make_no_sense(tmp_path, name):
    scale, zero, attributes, word = BAD[name]
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], "q"),
        node("DequantizeLinear", ["q", "b", "c"], "y", **attributes),
    ]
    constants = {"s": F(0.1), "z": U(0), "b": scale, "c": zero}
    refused(tmp_path, model(nodes, {"x": (1, 4, 6, 6)}, ["y"], constants), "'y'", word)


@pytest.mark.parametrize("name", ["NaN", "one of several", "rank", "lengths differ"])
def test_the_same_of_weights(tmp_path, name):
    scale, zero, _, word = BAD[name]
    graph = Qdq()
    real = graph.through("x", 0.02, 120)
    graph.constants |= {"w": np.ones((4, 4, 3, 3), U), "ws": scale, "wz": zero}
    graph.nodes += [
        node("DequantizeLinear", ["w", "ws", "wz"], "weights", axis=0),
        node("Conv", [real, "weights"], "y"),
    ]
    refused(tmp_path, graph.model({"x": (1, 4, 6, 6)}, ["y"]), "'weights'", word)


def test_weights_that_do_not_fit_the_data(tmp_path):
    graph = Qdq()
    weights = graph.weights((4, 5, 3, 3))
    graph.nodes.append(node("Conv", [graph.through("x", 0.02, 120), weights], "y"))
    refused(tmp_path, graph.model({"x": (1, 4, 6, 6)}, ["y"]), "shapes do not fit together")


def test_huge_scales_and_tiny_ones_leave_floats(tmp_path):
    for data, out in ((1e30, 1e-30), (1e-38, 1e38)):
        graph = Qdq()
        real = graph.add("Conv", [graph.through("x", data, 120), graph.weights((4, 4, 3, 3))])
        partition = load_partition(
            save(tmp_path, graph.model({"x": (1, 4, 6, 6)}, [graph.through(real, out)]))
        )
        (product,) = partition.products
        assert product.workload.kind == ("conv2d" if data > 1 else "qconv2d")
        graph = Qdq()
        real = graph.add("Add", [graph.through("x", data, 120)] * 2)
        load_partition(save(tmp_path, graph.model({"x": (1, 4, 6, 6)}, [graph.through(real, out)])))


def microsoft(op, inputs, **attributes):
    made = model(
        [helper.make_node(op, inputs, ["y"], name="it", domain="com.microsoft", **attributes)],
        {"x": (1, 4, 6, 6)},
        ["y"],
        {"s": F(0.1), "z": U(3), "several": np.ones(4, F), "w": np.ones((6, 4), U)},
        opset=12,
        dtype=TensorProto.UINT8,
    )
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "word"),
    [
        ("QLinearSigmoid", ["x", "s"], {}, "has no input 3"),
        ("QLinearSigmoid", ["x", "s", "z", "s"], {}, "has no input 4"),
        ("QLinearAdd", ["x", "s", "z"], {}, "has no input 3"),
        ("QLinearConv", ["x", "s", "z", "w", "several", "z", "s", "z"], {}, "operator set 13"),
        ("QLinearSoftmax", ["x", "s", "z", "s", "z"], {"opset": 13, "axis": 1}, "another operator set"),
        (
            "QLinearReduceMean",
            ["x", "s", "z", "s", "z"],
            {},
            "not standard ONNX: com.microsoft.QLinearReduceMean",
        ),
    ],
)
def test_operators_of_onnxruntime(tmp_path, op, inputs, attributes, word):
    refused(tmp_path, microsoft(op, inputs, **attributes), "'it'", word)


def test_damaged_quantized_models_are_refused_or_read(tmp_path):
    graph = Qdq()
    real = graph.add("Conv", [graph.through("x", 0.02, 120), graph.weights((4, 4, 3, 3), axis=0)])
    real = graph.add("Concat", [graph.add("Relu", [graph.through(real, 0.02)])] * 2, axis=1)
    whole = graph.model({"x": (1, 4, 6, 6)}, [graph.through(real, 0.03)]).SerializeToString()
    rng = np.random.default_rng(0)
    path = tmp_path / "model.onnx"
    outcomes = set()
    for _ in range(150):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(damaged), 3):
            damaged[at] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            load_partition(path)
            outcomes.add("read")
        except ModelError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
