"""Sizes of 0: inputs, results and what lies between, in every form that a user gets."""

import numpy as np
import onnxruntime
import pytest
import tvm
from every_form import check
from onnx import TensorProto, helper
from tiny_models import model, node, save
from tvm import relax

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.load import load_partition
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

pytestmark = [pytest.mark.usefixtures("avx2"), pytest.mark.timeout(300)]


def decoder():
    """A layer of attention with a cache of any length."""
    nodes = []
    for name in "qkv":
        nodes += [
            node("MatMul", ["x", f"w{name}"], f"{name}0"),
            node("Reshape", [f"{name}0", "split"], f"{name}1"),
            node("Transpose", [f"{name}1"], f"{name}2", perm=[0, 2, 1, 3]),
        ]
    nodes += [
        node("Concat", ["past_k", "k2"], "present_k", axis=2),
        node("Concat", ["past_v", "v2"], "present_v", axis=2),
        node("Transpose", ["present_k"], "turned", perm=[0, 1, 3, 2]),
        node("MatMul", ["q2", "turned"], "scores"),
        node("Softmax", ["scores"], "shares", axis=-1),
        node("MatMul", ["shares", "present_v"], "mixed"),
        node("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "join"], "joined"),
        node("MatMul", ["joined", "wo"], "y"),
    ]
    inputs = {"x": (1, "n", 24), "past_k": (1, 2, "p", 12), "past_v": (1, 2, "p", 12)}
    constants = dict.fromkeys(("wq", "wk", "wv", "wo"), (24, 24))
    constants |= {"split": np.array([0, -1, 2, 12]), "join": np.array([0, -1, 24])}
    return model(nodes, inputs, ["y", "present_k", "present_v", "past_k"], constants)


def first_step():
    """What it is given for a prompt of three tokens."""
    rng = np.random.default_rng()
    shapes = {"x": (1, 3, 24), "past_k": (1, 2, 0, 12), "past_v": (1, 2, 0, 12)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def options(feeds):
    return [f"--shape={name}={','.join(map(str, each.shape))}" for name, each in feeds.items()]


def test_a_decoders_first_step_in_every_form(tmp_path):
    feeds = first_step()
    check(tmp_path, decoder(), feeds, *options(feeds))


def test_a_files_own_size_of_0_in_every_form(tmp_path):
    """Also results without elements, of which one is an input that is given back."""
    nodes = [
        node("Concat", ["x", "e"], "joined", axis=1),
        node("MatMul", ["joined", "w"], "y"),
        node("Relu", ["e"], "nothing"),
        node("MatMul", ["e", "u"], "zeros"),
    ]
    made = model(
        nodes,
        {"x": (4, 7), "e": (4, 0)},
        ["y", "nothing", "zeros", "e"],
        {"w": (7, 5), "u": np.zeros((0, 3), np.float32)},
    )
    rng = np.random.default_rng()
    check(tmp_path, made, {"x": rng.random((4, 7), np.float32), "e": np.zeros((4, 0), np.float32)})


def test_nothing_at_all_is_computed(tmp_path):
    made = model([node("Conv", ["x", "w"], "y")], {"x": (0, 3, 8, 8)}, ["y"], {"w": (4, 3, 3, 3)})
    check(tmp_path, made, {"x": np.zeros((0, 3, 8, 8), np.float32)})


def test_no_workload_is_made_of_nothing(tmp_path):
    path = save(tmp_path, decoder())
    feeds = first_step()
    shapes = {name: list(each.shape) for name, each in feeds.items()}
    found = extract(path, [shapes, {**shapes, "x": [1, 0, 24]}])
    assert found.operators
    assert all(each.workload.flops for each in found.operators)
    assert [tuple(each.shape) for each in found.inputs] == [each.shape for each in feeds.values()]
    assert not load_partition(path, {**shapes, "x": [1, 0, 24]}).products


def test_an_explicit_0_is_a_size_and_what_is_left_out_is_not(tmp_path):
    made = model([node("Relu", ["x"], "y")], {"x": (2, 0)}, ["y"])
    assert extract(save(tmp_path, made)).inputs[0].shape == (2, 0)
    assert extract(save(tmp_path, made), {"x": [2, 5]}).inputs[0].shape == (2, 5)
    made.graph.input[0].type.tensor_type.shape.dim[1].Clear()
    with pytest.raises(ValueError, match="dynamic shape"):
        extract(save(tmp_path, made))


def test_what_data_decide_of_nothing(tmp_path):
    made = helper.make_graph(
        [node("NonZero", ["e"], "places"), node("Transpose", ["places"], "rows")],
        "empty",
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, [0, 3])],
        [helper.make_tensor_value_info("rows", TensorProto.INT64, None)],
    )
    whole = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    graph = load_partition(save(tmp_path, whole)).graph
    assert graph.tensors["rows"].shape == (0, 2)


BESIDE = {
    "split": (node("Split", ["x", "parts"], ["y", "z"]), (3, 6), {"parts": np.array([0, 3])}),
    "rows": (node("Compress", ["x", "truths"], "y", axis=0), (2, 3), {"truths": np.zeros(2, bool)}),
    "truths": (node("Compress", ["x", "truths"], "y"), (2, 0), {"truths": np.ones(0, bool)}),
    "resize": (
        node("Resize", ["x", "", "", "sizes"], "y", axes=[2, 3]),
        (0, 3, 4, 4),
        {"sizes": np.array([8, 6])},
    ),
    "heads": (node("MultiHeadAttention", ["x"] * 3, "y", domain="com.microsoft", num_heads=2), (0, 3, 8), {}),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_has_no_elements_beside_what_has(tmp_path, name):
    one, shape, constants = BESIDE[name]
    made = model([one], {"x": shape}, [*one.output], constants, opset=18)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    data = np.random.default_rng().normal(size=shape).astype(np.float32)
    executable, _ = build_model(save(tmp_path, made), {}, CATALOGUE["x86-avx2"])
    found = run(relax.VirtualMachine(executable, tvm.cpu())["main"], {"x": data})
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": data})
    for ours, right in zip(found, wanted, strict=True):
        assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
        np.testing.assert_allclose(ours, right)


def test_a_part_of_nothing_is_loaded_again(tmp_path):
    """TVM's loader takes no constant of 0 bytes, which a module in memory may have."""
    nodes = [
        node("Split", ["x", "parts"], ["p", "q"], axis=2),
        node("Relu", ["p"], "r"),
        node("Concat", ["r", "q"], "y", axis=2),
    ]
    made = model(nodes, {"x": (2, 3, 8)}, ["y"], {"parts": np.array([8, 0])}, opset=18)
    executable, _ = build_model(save(tmp_path, made), {}, CATALOGUE["x86-avx2"])
    executable.export_library(str(tmp_path / "net.so"))
    main = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "net.so")), tvm.cpu())["main"]
    data = {"x": np.random.default_rng().normal(size=(2, 3, 8)).astype(np.float32)}
    np.testing.assert_array_equal(run(main, data)[0], np.maximum(data["x"], 0))


@pytest.mark.parametrize("op", ["GRU", "LSTM", "RNN"])
@pytest.mark.parametrize("rows", [1, 3])
def test_steps_without_data_go_on_by_their_states(tmp_path, op, rows):
    """onnxruntime ends with the process of these; zeros by any weights are the same."""
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[op]
    rng = np.random.default_rng()
    constants = {"r": rng.normal(size=(1, gates * 5, 5)), "b": rng.normal(size=(1, gates * 10))}
    results = []
    for width in (0, 1):
        constants["w"] = np.ones((1, gates * 5, width))
        held = {name: value.astype(np.float32) for name, value in constants.items()}
        made = model([node(op, [*"xwrb"], "y", hidden_size=5)], {"x": (4, rows, width)}, ["y"], held)
        data = {"x": np.zeros((4, rows, width), np.float32)}
        if width:
            results += onnxruntime.InferenceSession(made.SerializeToString()).run(None, data)
        else:
            executable, _ = build_model(save(tmp_path, made), {}, CATALOGUE["x86-avx2"])
            results += run(relax.VirtualMachine(executable, tvm.cpu())["main"], data)
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("one", "inputs", "constants", "said"),
    [
        (node("ReverseSequence", ["x", "n"], "y"), {"x": (5, 4)}, {"n": np.zeros(0, np.int64)},
         r"\[0\] for 4 rows"),
        (node("RoiAlign", ["x", "r", "n"], "y"), {"x": (1, 4, 0, 6)},
         {"r": np.zeros((2, 4), np.float32), "n": np.zeros(2, np.int64)}, "planes without elements"),
        (node("GridSample", ["x", "g"], "y"), {"x": (1, 2, 0, 4), "g": (1, 2, 3, 2)}, {},
         "planes without elements"),
        (node("LayerNormalization", ["x", "s"], ["y", "m"]), {"x": (2, 0)}, {"s": np.ones(0, np.float32)},
         "axis without elements"),
        (node("NonMaxSuppression", ["x", "s", "k"], "y"), {"x": (2, 0, 4)},
         {"s": np.ones((2, 3, 50), np.float32), "k": np.array([9])}, r"boxes of \[2, 0, 4\] for 50 scores"),
    ],
    ids=lambda each: getattr(each, "op_type", ""),
)  # fmt: skip
def test_a_mistake_with_no_elements_is_told(tmp_path, one, inputs, constants, said):
    made = model([one], inputs, [*one.output], constants)
    if one.op_type == "NonMaxSuppression":
        made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(ModelError, match=said):
        build_model(save(tmp_path, made), {}, CATALOGUE["x86-avx2"])
