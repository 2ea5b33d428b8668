"""What a check sees: wrong tables, lengths and choices fail, near ties do not; what cannot fail is told."""

import numpy as np
import pytest
import tvm
from onnx import TensorProto
from tiny_models import model, node, save
from tvm import relax

from compiler.ir.checks import ModelError
from compiler.load import load_graph
from tuner.backend import apply
from tuner.backend.apply import build_model
from tuner.backend.check import Check
from tuner.backend.choices import places_of
from tuner.backend.comparison import Build, check
from tuner.backend.definition import Definition, define
from tuner.backend.difference import compared
from tuner.backend.draws import draws_of, ranges_of
from worker.measure.host import host_target

RNG = np.random.default_rng(0)


def checked(path, main=None):
    executable, manifest = build_model(path, {}, host_target())
    made = Build(str(path), None, manifest.target, 1, manifest.configs, manifest.tolerance)
    built = relax.VirtualMachine(executable, tvm.cpu())["main"]
    return check(lambda: main(built) if main else built, made)


@pytest.fixture
def spoil(monkeypatch):
    """Builds get weights that are one per cent off."""
    packed = apply.constants_of

    def spoilt(product, config, target):
        weights, *rest = packed(product, config, target)
        return [weights * np.float32(1.01), *rest]

    return lambda: monkeypatch.setattr(apply, "constants_of", spoilt)


def table(folder, rows=1000):
    """Rows of a table, by ids, of which a mask leaves some."""
    nodes = [
        node("Gather", ["table", "ids"], "rows"),
        node("Cast", ["mask"], "kept", to=TensorProto.FLOAT),
        node("Unsqueeze", ["kept", "last"], "column"),
        node("Mul", ["rows", "column"], "y"),
    ]
    arrays = {"table": RNG.standard_normal((rows, 8)).astype(np.float32), "last": np.array([2])}
    made = model(nodes, {"ids": (1, 16), "mask": (1, 16)}, ["y"], arrays, dtype=TensorProto.INT64)
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    return save(folder, made)


def test_drawn_ids_reach_all_of_a_table_and_masks_are_long_and_short(tmp_path):
    graph = load_graph(table(tmp_path))
    assert (ranges_of(graph)["ids"].low, ranges_of(graph)["ids"].high) == (0, 999)
    draws = {draw.name: draw.feeds for draw in draws_of(graph)}
    ids = np.concatenate([each["ids"].reshape(-1) for each in draws.values()])
    assert {0, 999} <= set(ids.tolist())
    assert np.sum((ids > 100) & (ids < 900)) > 10
    assert draws["long lengths"]["mask"].sum() == 16
    assert draws["short lengths"]["mask"].tolist() == [[1, 1, *[0] * 14]]
    assert {np.iinfo(np.int64).min, np.iinfo(np.int64).max} < set(draws["the ends of integers"]["mask"][0])


def test_a_table_of_which_only_the_first_rows_are_right_is_wrong(tmp_path):
    path = table(tmp_path)
    assert checked(path).checked

    def clipped(main):
        def run(ids, mask):
            return main(tvm.runtime.tensor(np.minimum(ids.numpy(), 500)), mask)

        return run

    assert checked(path, clipped).wrong


def test_a_module_that_is_wrong_for_short_masks_alone_is_wrong(tmp_path):
    def forgetful(main):
        return lambda ids, mask: main(
            ids, mask if mask.numpy().sum() > 4 else tvm.runtime.tensor(np.ones_like(mask.numpy()))
        )

    assert checked(table(tmp_path), forgetful).wrong.startswith("with short lengths: y differs")


def test_lengths_of_sequences_reach_from_one_to_all(tmp_path):
    nodes = [node("ReverseSequence", ["x", "lengths"], "y", batch_axis=1, time_axis=0)]
    made = model(nodes, {"x": (7, 3)}, ["y"])
    made.graph.input.add().CopyFrom(made.graph.input[0])
    lengths = made.graph.input[1]
    lengths.name = "lengths"
    lengths.type.tensor_type.elem_type = TensorProto.INT64
    lengths.type.tensor_type.shape.ClearField("dim")
    lengths.type.tensor_type.shape.dim.add().dim_value = 3
    draws = {d.name: d.feeds["lengths"].tolist() for d in draws_of(load_graph(save(tmp_path, made)))}
    assert (draws["long lengths"], draws["short lengths"]) == ([7, 7, 7], [1, 1, 1])


def test_what_the_definition_refuses_is_drawn_otherwise(tmp_path):
    """Places that are computed from an input are in no range that anybody could read off."""
    nodes = [node("Mul", ["ids", "two"], "twice"), node("Gather", ["table", "twice"], "y")]
    arrays = {"table": RNG.standard_normal((2, 8)).astype(np.float32), "two": np.array([2])}
    made = model(nodes, {"ids": (4,)}, ["y"], arrays, dtype=TensorProto.INT64)
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    found = checked(save(tmp_path, made))
    assert found.checked, found


@pytest.mark.parametrize("kind", [TensorProto.INT8, TensorProto.INT64])
@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_divisors_of_0_are_drawn_otherwise(tmp_path, op, kind):
    """onnxruntime refuses them; onnx's own evaluator, which knows a quotient, is not asked."""
    made = model([node(op, ["a", "b"], "y")], {"a": (999,), "b": (999,)}, ["y"], dtype=kind)
    found = checked(save(tmp_path, made))
    assert found.checked, found
    assert "onnxruntime" in found.by
    wrong = checked(save(tmp_path, made), lambda main: lambda a, b: main(b, a))
    assert wrong.wrong.startswith("with small integers: y differs")


def rows(folder, count=300, k=50):
    """The best of many rows, as detectors end: scores, and the boxes behind them."""
    nodes = [
        node("MatMul", ["x", "w"], "scores"),
        node("Sigmoid", ["scores"], "shares"),
        node("TopK", ["shares", "k"], ["best", "places"]),
        node("MatMul", ["x", "v"], "flat"),
        node("Reshape", ["flat", "shape"], "boxes"),
        node("Squeeze", ["places", "first"], "which"),
        node("Gather", ["boxes", "which"], "taken", axis=0),
        node("Transpose", ["best"], "column", perm=[1, 0]),
        node("Concat", ["taken", "column"], "y", axis=1),
    ]
    nodes[2].ClearField("output")
    nodes[2].output.extend(["best", "places"])
    arrays = {
        "w": RNG.standard_normal((64, count)).astype(np.float32) * np.float32(0.1),
        "v": RNG.standard_normal((64, count * 4)).astype(np.float32),
        "k": np.array([k]), "shape": np.array([count, 4]), "first": np.array([0]),
    }  # fmt: skip
    return save(folder, model(nodes, {"x": (1, 64)}, ["y"], arrays))


def test_rows_of_a_choice_are_right_and_what_feeds_it_is_compared(tmp_path):
    found = checked(rows(tmp_path))
    assert found.checked, found
    assert found.inside >= 1
    assert found.allowed["y"] < 0.1
    assert "tensors inside are right" in str(found)


def test_a_wrong_module_that_ends_in_a_choice_fails(tmp_path, spoil):
    spoil()
    assert checked(rows(tmp_path)).wrong


def test_places_alone_tell_of_what_feeds_them(tmp_path, spoil):
    """Of weights that are all one per cent off the same are the greatest: what feeds the choice is not."""
    nodes = [node("MatMul", ["x", "w"], "scores"), node("ArgMax", ["scores"], "y", axis=1, keepdims=0)]
    made = model(nodes, {"x": (5, 64)}, ["y"], {"w": (64, 40)})
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    path = save(tmp_path, made)
    found = checked(path)
    assert found.checked, found
    assert found.inside == 1
    spoil()
    assert checked(path).wrong.startswith("by the definition's own inputs, scores differs")


STEPS = {
    "few exceed": ([node("Greater", ["h", "limit"], "y")], TensorProto.BOOL, 100.0),
    "any exceeds": (
        [
            node("Less", ["h", "limit"], "less"),
            node("Not", ["less"], "not"),
            node("Cast", ["not"], "number", to=TensorProto.INT32),
            node("ReduceMax", ["number"], "y", keepdims=0),
        ],
        TensorProto.INT32,
        0.0,
    ),
    "signs": ([node("Sign", ["h"], "y")], TensorProto.FLOAT, 0.0),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_feeds_a_step_is_compared(tmp_path, spoil, name):
    """Truths and signs are the same of weights that are all one per cent off."""
    nodes, kind, limit = STEPS[name]
    arrays = {"w": (64, 8), "limit": np.array(limit, np.float32), "two": np.array(2, np.float32)}
    made = model([node("MatMul", ["x", "w"], "h"), *nodes], {"x": (5, 64)}, ["y"], arrays)
    made.graph.output[0].type.tensor_type.elem_type = kind
    path = save(tmp_path, made)
    found = checked(path)
    assert found.checked, found
    assert found.inside == 1
    spoil()
    assert checked(path).wrong.startswith("by the definition's own inputs, ")


def test_truths_that_are_all_the_same_say_that_the_check_could_not_have_failed(tmp_path):
    made = model(
        [node("Greater", ["x", "far"], "y")], {"x": (5, 8)}, ["y"], {"far": np.array(1e6, np.float32)}
    )
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    found = checked(save(tmp_path, made))
    assert not found.checked
    assert "could not have failed: y is empty or one and the same value" in str(found)


def test_shapes_in_floats_are_no_steps(tmp_path):
    """What follows from shapes stays as it is, or the model in pieces could not be built."""
    nodes = [
        node("Shape", ["x"], "shape"),
        node("Cast", ["shape"], "floats", to=TensorProto.FLOAT),
        node("Floor", ["floats"], "whole"),
        node("Cast", ["whole"], "sizes", to=TensorProto.INT64),
        node("MatMul", ["x", "w"], "h"),
        node("Expand", ["h", "sizes"], "wide"),
        node("Greater", ["wide", "zero"], "y"),
    ]
    made = model(nodes, {"x": (8, 8)}, ["y"], {"w": (8, 8), "zero": np.array(0, np.float32)})
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    found = checked(save(tmp_path, made))
    assert found.checked, found
    assert found.inside == 1


def of(values, nudged=None, **more):
    given = dict.fromkeys(values) if nudged is None else nudged
    return Definition(
        {**values}, {**values, **{k: v for k, v in given.items() if v is not None}}, "it", **more
    )


def test_near_ties_may_stand_either_way_and_nothing_else():
    scores = np.sort(RNG.random(40).astype(np.float32))[::-1].copy()
    scores[11] = scores[10] - np.float32(1e-6)
    boxes = RNG.random((40, 4)).astype(np.float32)
    right = {"y": np.concatenate([boxes, scores[:, None]], 1)[None]}
    defined = of(right, chosen=frozenset(right), counts=frozenset({40}))

    def verdict(*order):
        shuffled = np.arange(40)
        shuffled[list(order)] = list(order)[::-1]
        return compared({"y": right["y"][:, shuffled]}, defined, 1e-4)

    assert verdict(10, 11).checked
    assert verdict(3, 20).wrong, "their scores are far apart"
    reversed_ = {"y": right["y"][:, ::-1]}
    assert compared(reversed_, defined, 1e-4).wrong
    assert compared({"y": right["y"] * np.float32(1.01)}, defined, 1e-4).wrong


def test_another_length_says_nothing_of_chaos_alone():
    sound = RNG.random(600).astype(np.float32)
    chaos, calm = of({"y": sound}, {"y": sound[::-1]}), of({"y": sound}, {"y": sound * np.float32(1.00001)})
    assert compared({"y": sound[:500]}, chaos, 1e-4).blunt == ["y"]
    assert "shape" in compared({"y": sound[:500]}, calm, 1e-4).wrong
    assert "shape" in compared({"y": sound[:500, None]}, chaos, 1e-4).wrong


def test_places_of_ties_are_right_and_of_others_wrong(tmp_path):
    nodes = [node("Identity", ["x"], "scores"), node("ArgMax", ["scores"], "y", axis=1, keepdims=1)]
    made = model(nodes, {"x": (2, 4)}, ["y"])
    feeds = {"x": np.array([[1, 5, 5, 0], [9, 0, 1, 8.9]], np.float32)}
    assert places_of(made).keys() == {"y"}
    defined = define(made, feeds)
    assert compared({"y": np.array([[2], [0]])}, defined, 1e-4).checked
    assert compared({"y": np.array([[1], [3]])}, defined, 1e-4).wrong
    assert compared({"y": np.array([[1], [4]])}, defined, 1e-4).wrong


def test_what_could_not_have_failed_is_told():
    right = {"y": np.ones((2, 3), np.float32), "z": np.arange(4, dtype=np.float32)}
    loose = compared(right, of(right, {"z": right["z"] + 1}), 1e-4)
    assert loose.blunt == ["y", "z"]
    assert "of y, z alone it could hardly have failed" in str(loose)
    assert compared({"y": np.zeros((0, 3))}, of({"y": np.zeros((0, 3))}), 1e-4).blunt == ["y"]


def chaotic(folder):
    """Data are quantized by their own greatest, and what comes of it becomes very much steeper."""
    nodes = []
    value = "x"
    for number in range(3):
        nodes += [
            node("DynamicQuantizeLinear", [value], [f"q{number}", f"s{number}", f"z{number}"]),
            node("MatMulInteger", [f"q{number}", f"w{number}", f"z{number}"], f"i{number}"),
            node("Cast", [f"i{number}"], f"f{number}", to=TensorProto.FLOAT),
            node("Mul", [f"f{number}", f"s{number}"], f"m{number}"),
            node("Mul", [f"m{number}", "steep"], f"t{number}"),
            node("Sin", [f"t{number}"], f"v{number}"),
        ]
        for each in nodes[-6:-5]:
            each.ClearField("output")
            each.output.extend([f"q{number}", f"s{number}", f"z{number}"])
        value = f"v{number}"
    weights = {f"w{number}": RNG.integers(-127, 128, (32, 32)).astype(np.int8) for number in range(3)}
    return save(
        folder, model(nodes, {"x": (6, 32)}, [value], weights | {"steep": np.array(40.0, np.float32)})
    )


def test_a_chaotic_model_is_compared_in_pieces(tmp_path):
    path = chaotic(tmp_path)
    found = checked(path)
    assert found.checked, found
    assert found.blunt, "as a whole no module could fail"
    assert found.inside >= 2


def test_a_chaotic_model_that_cannot_be_cut_says_that_nothing_could_fail(tmp_path, monkeypatch):
    monkeypatch.setattr("tuner.backend.comparison.cuts_of", lambda *_: [])
    found = checked(chaotic(tmp_path))
    assert not found.checked
    assert "the check could not have failed: v2 may differ by" in str(found)
    assert isinstance(found, Check)


def test_onnx_has_the_last_word_where_onnxruntime_computes_something_else(tmp_path):
    """Of a window that reaches over the end onnxruntime 1.31 takes other elements."""
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "p": 2}
    made = model([node("LpPool", ["x"], "y", **attributes)], {"x": (1, 2, 6, 6)}, ["y"], opset=18)
    path = save(tmp_path, made)
    found = checked(path)
    assert found.checked, found
    assert "by which onnx defines it; onnxruntime" in found.by

    def off(main):
        return lambda x: tvm.runtime.tensor(main(x).numpy() * np.float32(1.01))

    assert checked(path, off).wrong


FLOAT8 = TensorProto.FLOAT8E4M3FN


@pytest.mark.parametrize(
    ("nodes", "dtype", "words"),
    [
        (
            [node("Identity", ["x"], "y")],
            FLOAT8,
            "FLOAT8E4M3FN, which nothing here does: export the model as",
        ),
        (
            [node("Cast", ["x"], "h", to=FLOAT8), node("Cast", ["h"], "y", to=TensorProto.FLOAT)],
            TensorProto.FLOAT,
            "quantize that to int8",
        ),
        (
            [node("StringNormalizer", ["x"], "y")],
            TensorProto.STRING,
            "computes with strings; export the model",
        ),
        ([node("Identity", ["x"], "y")], TensorProto.COMPLEX64, "real and imaginary parts as floats"),
    ],
)
def test_types_that_nothing_computes_with_are_refused_with_the_way_out(tmp_path, nodes, dtype, words):
    path = save(tmp_path, model(nodes, {"x": (3,)}, ["y"], opset=19, dtype=dtype))
    with pytest.raises(ModelError, match=words):
        load_graph(path)


def test_strings_and_shapes_by_data_are_refused_in_words_of_ours(tmp_path):
    path = save(tmp_path, model([node("Identity", ["x"], "y")], {"x": (3,)}, ["y"], dtype=TensorProto.STRING))
    with pytest.raises(ModelError, match=r"'y' \(Identity\) computes with strings; export the model without"):
        build_model(path, {}, host_target())
    made = model([node("Expand", ["x", "n"], "y")], {"x": (4, 6), "n": (2,)}, ["y"])
    made.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(ModelError, match=r"does depends on the input 'n': give .* --value n=NUMBER,NUMBER"):
        build_model(save(tmp_path, made), {}, host_target())
