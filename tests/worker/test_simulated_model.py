"""A whole model on a simulated board: called function by function, compared with its definition, timed."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from kernels import target as targets
from kernels.target import CATALOGUE
from tuner.backend import apply
from tuner.backend.check import Delivery
from tuner.backend.draws import random_feeds
from tuner.job.delivery_child import deliver_in_child
from tuner.job.profile import Ran, read_inputs, to_tensor
from tuner.job.profile_child import profile_in_child

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(600)]


@pytest.fixture
def payload(simulated_boards, tmp_path):
    """Two convolutions with a pool, a tanh and a softmax, which no kernel computes, and two outputs.

    What gives a tensor another shape is no call of a module whose calls are one.
    """
    rng = np.random.default_rng(0)
    weights = {"w": (16, 8, 3, 3), "v": (24, 16, 3, 3)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["b", "v"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Tanh", ["c"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Softmax", ["f"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 14, 14])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "c")],
        [
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 12, name)
            for name, shape in weights.items()
        ],
    )
    path = tmp_path / "model.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return {
        "model": str(path),
        "shapes": None,
        "target": targets.to_json(CATALOGUE["rpi4"]),
        "threads": 1,
        "numerics": "relaxed",
        "records": [],
        "relayouts": [],
        "lock": str(tmp_path / "lock"),
        "id": "rpi4-sim",
        "board": simulated_boards["rpi4-sim"].address,
    }


def deliver(payload):
    return Delivery.from_json(deliver_in_child(payload, lambda _: None))


def test_a_model_is_checked_and_timed_on_the_board(payload, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    found = deliver(payload)
    assert found.check.checked
    assert set(found.check.errors) == {"y", "c"}
    assert 0 < found.other_s < found.seconds
    assert found.spread == 0
    # The simulated clock tells the same again.
    assert deliver(payload).seconds == found.seconds


def test_each_of_several_sets_of_shapes_is_checked_and_timed(payload, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    made = onnx.load(payload["model"])
    for axis in (2, 3):
        made.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = "n"
    onnx.save(made, payload["model"])
    sets = [{"x": [1, 8, 14, 14]}, {"x": [1, 8, 9, 10]}]
    found = deliver(payload | {"shapes": sets})
    assert found.check.checked
    assert [each.shapes for each in found.each] == sets
    assert found.seconds == pytest.approx(sum(each.seconds for each in found.each))
    assert found.each[1].seconds < found.each[0].seconds
    assert sum(part["seconds"] for part in found.operators) == pytest.approx(found.seconds)


def test_a_model_is_run_with_data_of_the_user(payload, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    shape = (1, 8, 14, 14)
    feeds = random_feeds({"x": (shape, "float32")}, seed=5)
    inputs = {"x": to_tensor(feeds["x"])}
    ran = Ran.from_json(profile_in_child(payload | {"inputs": inputs, "outputs": True}, lambda _: None))
    assert ran.delivery.check.checked
    assert ran.delivery.seconds == pytest.approx(sum(each["seconds"] for each in ran.delivery.operators))
    assert (ran.board, ran.from_records, ran.by_analysis) == ("rpi4-sim", 0, 2)
    assert min(ran.weights_bytes, ran.workspace_bytes) > 0
    session = onnxruntime.InferenceSession(payload["model"], providers=["CPUExecutionProvider"])
    for name, right in zip(("y", "c"), session.run(["y", "c"], feeds), strict=True):
        found = read_inputs({name: ran.outputs[name]}, {name: (right.shape, "float32")})[name]
        assert np.abs(found - right).max() < 1e-4 * np.abs(right).max()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "there are no data for input 'x'"),
        ({"y": ([1, 2], "float32")}, "the model has no input 'y'; it has: x"),
        ({"x": ([1, 2], "float64")}, "input 'x' is float64 and should be float32"),
        ({"x": ([1, 2], "float32")}, "input 'x' has the shape"),
    ],
)
def test_data_that_do_not_fit_are_refused(payload, given, said):
    inputs = {name: to_tensor(np.zeros(shape, dtype)) for name, (shape, dtype) in given.items()}
    found = profile_in_child(payload | {"inputs": inputs, "outputs": False}, lambda _: None)
    assert said in found["invalid"]


def test_a_wrong_model_is_found_on_the_board(payload, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    packed = apply.constants_of

    def spoil(product, config, target):
        weights, *rest = packed(product, config, target)
        return [weights * np.float32(1.1), *rest]

    monkeypatch.setattr(apply, "constants_of", spoil)
    found = deliver(payload)
    assert found.check.wrong.startswith("a differs by 0.1")
    assert found.check.where == "board rpi4-sim"
    assert found.seconds is None
