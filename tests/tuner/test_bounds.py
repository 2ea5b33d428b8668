"""Indices that are not there: every kind of build refuses the run, with the node and the index."""

import json
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper
from test_c_open import written as written_open
from test_c_shapes import written
from test_loops_unrolled import body
from tiny_models import model, node, save
from tvm import relax
from typer.testing import CliRunner

from kernels.target import CATALOGUE
from tilefleet.cli import app
from tuner.backend.comparison import run
from tuner.backend.shape_sets import build_sets
from tuner.clibrary import steps
from tuner.clibrary.header import ERRORS
from tuner.clibrary.loaded import CallError, Loaded
from tuner.ortmodel.session import session

TARGET = CATALOGUE["x86-avx2"]
FAR = 10**9
REFUSALS = (
    onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument,
    onnxruntime.capi.onnxruntime_pybind11_state.Fail,
)
"""What onnxruntime raises for such indices."""
pytestmark = [pytest.mark.usefixtures("avx2"), pytest.mark.timeout(300)]


def of_indices(nodes, inputs, outputs, constants=None):
    """A model whose input ``ids`` is int64."""
    made = model(nodes, inputs, outputs, constants, opset=18)
    for value in made.graph.input:
        if value.name == "ids":
            value.type.tensor_type.elem_type = TensorProto.INT64
    return made


def embedding():
    """Two tables by the ids of words, of which the shorter decides; one more by ids that are computed."""
    nodes = [
        node("Gather", ["long", "ids"], "a"),
        node("Gather", ["short", "ids"], "b"),
        node("Add", ["ids", "one"], "next"),
        node("Gather", ["long", "next"], "c"),
        node("Sum", ["a", "b", "c"], "y"),
    ]
    constants = {"long": (50, 8), "short": (40, 8), "one": np.array(1)}
    return of_indices(nodes, {"ids": (1, 4)}, ["y"], constants)


def large():
    """A table that keeps the calls of a module apart."""
    made = [node("Gather", ["table", "ids"], "a"), node("Relu", ["a"], "y")]
    return of_indices(made, {"ids": (1, 4)}, ["y"], {"table": (40, 30_000)})


def elements():
    return of_indices(
        [node("GatherElements", ["x", "ids"], "y", axis=1)], {"x": (4, 40), "ids": (4, 3)}, ["y"]
    )


def coordinates():
    """Rows and columns of either extent."""
    nodes = [node("GatherND", ["x", "ids"], "y")]
    return of_indices(nodes, {"x": (40, 50, 2), "ids": (3, 2)}, ["y"])


def scattered():
    return of_indices(
        [node("ScatterElements", ["x", "ids", "new"], "y", axis=1)],
        {"x": (4, 40), "ids": (4, 3), "new": (4, 3)},
        ["y"],
    )


def scattered_rows():
    nodes = [node("ScatterND", ["x", "ids", "new"], "y")]
    return of_indices(nodes, {"x": (40, 3), "ids": (3, 1), "new": (3, 3)}, ["y"])


def looped():
    """A loop that data end reads another row in each turn."""
    nodes = [
        node("Add", ["turn", "first"], "at"),
        node("Gather", ["table", "at"], "row"),
        node("Add", ["s", "row"], "s2"),
        node("ReduceSum", ["s2"], "all", keepdims=0),
        node("Less", ["all", "enough"], "on"),
    ]
    inner = body(nodes, ["turn", "going", "s"], ["on", "s2"], enough=np.float32(1e9))
    nodes = [
        node("ReduceMin", ["ids"], "first", keepdims=0),
        node("Loop", ["limit", "", "zeros"], ["y"], body=inner),
    ]
    constants = {"table": (40, 5), "limit": np.array(3), "zeros": np.zeros(5, np.float32)}
    return of_indices(nodes, {"ids": (2,)}, ["y"], constants)


MODELS = {
    "embedding": (embedding, "a"),
    "large": (large, "a"),
    "elements": (elements, "y"),
    "coordinates": (coordinates, "y"),
    "scattered": (scattered, "y"),
    "scattered_rows": (scattered_rows, "y"),
    "looped": (looped, "row"),
}
"""Models whose indices are below 40, and the node that refuses others."""


def feeds_of(path, ids):
    """Inputs of which the indices are ``ids``, as often as there are any."""
    rng = np.random.default_rng(0)
    given = onnxruntime.InferenceSession(path).get_inputs()
    floats = {each.name: rng.standard_normal(each.shape).astype(np.float32) for each in given}
    return floats | {
        each.name: np.resize(np.array(ids, np.int64), each.shape) for each in given if each.name == "ids"
    }


def bad(path, number):
    """Good indices, but for the last."""
    feeds = feeds_of(path, [3])
    feeds["ids"].flat[-1] = number
    return feeds


@pytest.mark.parametrize("name", MODELS)
def test_a_run_is_refused_with_the_node_and_the_index(tmp_path, name):
    make, refuses = MODELS[name]
    path = save(tmp_path, make())
    good = feeds_of(path, [0, 5, 7, 35] if name == "looped" else [0, 5, -1, 38])
    wanted = onnxruntime.InferenceSession(path).run(None, good)
    executable, _ = build_sets(path, TARGET, 1)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    written(tmp_path, path)
    loaded = Loaded(tmp_path / "net.so", "net")
    numbers = (-FAR, -(2**63)) if name == "looped" else (FAR, -FAR, 2**63 - 1, -(2**63), 50, -51)
    for number in numbers:
        feeds = bad(path, number)
        with pytest.raises(REFUSALS):
            onnxruntime.InferenceSession(path).run(None, feeds)
        words = rf"node '{refuses}' .* needs an index from -\d+ to \d+, and is given {number}$"
        with pytest.raises(IndexError, match=words):
            run(main, feeds)
        with pytest.raises(CallError, match=words):
            loaded.run([*feeds.values()])
    for found in (run(main, good), loaded.run([*good.values()])):
        for ours, right in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, right, rtol=1e-5)


def operators():
    """Operators that are given a length or another kind of index: the model, good inputs, the operand and
    what it must not be."""
    x, rois = np.ones((2, 3, 8, 8), np.float32), np.float32([[0, 0, 4, 4], [1, 1, 6, 5]])
    turns = np.ones((5, 2, 3), np.float32)
    recurrent = {"w": (1, 16, 3), "r": (1, 16, 4), "b": (1, 32)}
    pool = np.concatenate([np.float32([[0], [1]]), rois], axis=1)
    yield "RoiAlign", {"x": x, "r": rois, "i": np.array([0, 1])}, {"output_height": 2}, {}, [2, -1, FAR]
    yield "MaxRoiPool", {"x": x, "i": pool}, {"pooled_shape": [2, 2]}, {}, [2, -1, FAR, np.nan]
    yield (
        "MaxUnpool",
        {"x": np.ones((1, 1, 2, 2), np.float32), "i": np.array([[[[0, 3], [8, 15]]]])},
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {},
        [16, -1, FAR],
    )
    lines = {"x": turns, "i": np.array([3, 5])}
    yield "ReverseSequence", lines, {}, {}, [6, -1, FAR]
    of_lstm = {"x": turns, "w": None, "r": None, "b": None, "i": np.int32([3, 5])}
    yield "LSTM", of_lstm, {"hidden_size": 4}, recurrent, [6, -1, FAR]
    of_rnn = {"x": turns, "w": None, "r": None, "b": None, "i": np.int32([3, 5])}
    yield "RNN", of_rnn, {"hidden_size": 16}, {**recurrent, "r": (1, 16, 16)}, [6, -1]


@pytest.mark.parametrize(("op", "inputs", "attributes", "constants", "numbers"), [*operators()])
def test_lengths_and_numbers_of_images_too(tmp_path, op, inputs, attributes, constants, numbers):
    given = {name: value for name, value in inputs.items() if value is not None}
    made = model([node(op, [*inputs], ["y"], **attributes)], {}, ["y"], constants, opset=18)
    for name, value in given.items():
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        made.graph.input.append(helper.make_tensor_value_info(name, kind, value.shape))
    path = save(tmp_path, made)
    executable, _ = build_sets(path, TARGET, 1)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    written(tmp_path, path)
    loaded = Loaded(tmp_path / "net.so", "net")
    for number in numbers:
        feeds = {name: value.copy() for name, value in given.items()}
        feeds["i"].reshape(len(feeds["i"]), -1)[-1, 0 if op == "MaxRoiPool" else -1] = number
        with pytest.raises(IndexError, match=rf"node 'y' \({op}\) needs an? \w+ from .* is given -?\d+$"):
            run(main, feeds)
        with pytest.raises(CallError, match=rf"node 'y' \({op}\) needs an? \w+ from .* is given -?\d+$"):
            loaded.run([*feeds.values()])
    wanted = onnxruntime.InferenceSession(path).run(None, given)
    for found in (run(main, given), loaded.run([*given.values()])):
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-6)


def test_regions_that_are_not_there_are_nothing(tmp_path):
    """As many samples as pixels of a region that has none; NaN and what has far too many end the run."""
    nodes = [node("RoiAlign", ["x", "r", "i"], "y", output_height=2, output_width=2)]
    made = of_indices(nodes, {"x": (1, 2, 8, 8), "r": (3, 4)}, ["y"], {"i": np.array([0, 0, 0])})
    path = save(tmp_path, made)
    feeds = {"x": np.full((1, 2, 8, 8), 7, np.float32)}
    feeds["r"] = np.float32([[1, 1, 5, 5], [5, 5, 1, 1], [1, 1, 500, 5]])
    executable, _ = build_sets(path, TARGET, 1)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    (found,) = run(main, feeds)
    session = onnxruntime.InferenceSession(path)
    np.testing.assert_allclose(found, session.run(None, feeds)[0], rtol=1e-5)
    for number in (np.nan, np.inf, -np.inf):
        feeds["r"][2, 2] = number
        with pytest.raises(REFUSALS, match="finite"):
            session.run(None, feeds)
        with pytest.raises(
            IndexError, match=r"\(RoiAlign\) needs a count of NaN and infinities .*, and is given 1$"
        ):
            run(main, feeds)
    for number in (1e9, 2**33, 3e38):
        feeds["r"][2, 2] = number
        words = r"\(RoiAlign\) needs a count of samples .* from 0 to 16777216, and is given \d+$"
        with pytest.raises(IndexError, match=words):
            run(main, feeds)


def test_an_overlap_that_is_no_part_is_refused(tmp_path):
    nodes = [node("NonMaxSuppression", ["x", "s", "i", "t"], "y")]
    made = of_indices(nodes, {"x": (1, 9, 4), "s": (1, 1, 9), "t": (1,)}, ["y"], {"i": np.array([9])})
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    path = save(tmp_path, made)
    boxes, scores = (
        np.random.default_rng().uniform(0, 9, (1, 9, 4)),
        np.random.default_rng().random((1, 1, 9)),
    )
    feeds = {"x": boxes.astype(np.float32), "s": scores.astype(np.float32)}
    executable, _ = build_sets(path, TARGET, 1)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    session = onnxruntime.InferenceSession(path)
    for part in (0, 0.3, 1):
        feeds["t"] = np.float32([part])
        np.testing.assert_array_equal(run(main, feeds)[0], session.run(None, feeds)[0])
    for number in (-0.1, 1.1, np.nan, -np.inf):
        feeds["t"] = np.float32([number])
        with pytest.raises(REFUSALS, match="iou_threshold must be in"):
            session.run(None, feeds)
        with pytest.raises(IndexError, match=r"needs an iou_threshold from 0 to 1, and is given -?\d+$"):
            run(main, feeds)


def test_calls_in_a_table_are_refused_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "LONGEST", 0)
    nodes = [node("Gather", ["table", "ids"], "a"), node("Gather", ["short", "ids"], "b")]
    nodes += [node("Add", ["a", "b"], "c"), node("MatMul", ["c", "w"], "d"), node("Relu", ["d"], "e")]
    nodes += [node("MatMul", ["e", "v"], "f"), node("Relu", ["f"], "y")]
    constants = {"table": (50, 64), "short": (40, 64), "w": (64, 64), "v": (64, 64)}
    path = save(tmp_path, of_indices(nodes, {"ids": (9,)}, ["y"], constants))
    written(tmp_path, path)
    assert "steps_0[] = {" in (tmp_path / "net.c").read_text()
    loaded = Loaded(tmp_path / "net.so", "net")
    for number, who in ((FAR, "a"), (45, "b"), (-FAR, "a")):
        with pytest.raises(CallError, match=rf"node '{who}' .*, and is given {number}$") as refusal:
            loaded.run([*bad(path, number).values()])
        assert refusal.value.code >= len(ERRORS)
    loaded.run([*feeds_of(path, [3]).values()])


def test_each_set_of_shapes_and_any_open_length_refuse(tmp_path):
    nodes = [node("Gather", ["table", "ids"], "a"), node("Gather", ["a", "ids"], "y", axis=1)]
    made = of_indices(nodes, {"ids": (1, "n")}, ["y"], {"table": (50, 8)})
    path = save(tmp_path, made)
    sets, open_ = [{"ids": (1, 3)}, {"ids": (1, 5)}], {"ids": [1, "1..40"]}
    (tmp_path / "sets").mkdir()
    (tmp_path / "open").mkdir()
    written(tmp_path / "sets", path, sets=tuple(sets))
    written_open(tmp_path / "open", path, open_)
    for folder, shapes in (("sets", sets), ("open", open_)):
        executable, _ = build_sets(path, TARGET, 1, shapes)
        main = relax.VirtualMachine(executable, tvm.cpu())["main"]
        loaded = Loaded(tmp_path / folder / "net.so", "net")
        for length in (3, 5):
            right = np.full((1, length), length - 1)
            (found,) = run(main, {"ids": right})
            np.testing.assert_array_equal(found, loaded.run([right])[0])
            for number, who in ((FAR, "a"), (length, "y"), (-length - 1, "y")):
                ids = right.copy()
                ids[0, 1] = number
                words = f"node '{who}' .*, and is given {number}$"
                with pytest.raises(IndexError, match=words):
                    run(main, {"ids": ids})
                with pytest.raises(CallError, match=words):
                    loaded.run([ids])


def test_a_wheel_and_an_onnxruntime_library_say_so_too(tmp_path):
    path, log = save(tmp_path, embedding()), tmp_path / "log.jsonl"
    log.write_text("")
    for kind in ("wheel", "onnxruntime"):
        words = ["build", path, "--log", log, "--as", kind, "-o", tmp_path / kind, "--name", "net"]
        done = CliRunner().invoke(app, [*map(str, words), "--cpus", "x86-avx2"])
        assert done.exit_code == 0, done.output
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, tmp_path / "site"], check=True)
    calls = "import json, numpy, net\ntry: net.run(numpy.array([[0, 3, 10**9, 9]]))\n"
    calls += "except IndexError as error: print(json.dumps(str(error)))"
    done = subprocess.run(
        [sys.executable, "-c", calls], cwd=tmp_path / "site", capture_output=True, text=True, check=True
    )
    text = "node 'a' (Gather) needs an index from -50 to 49, and is given 1000000000"
    assert json.loads(done.stdout) == text
    here = session(tmp_path / "onnxruntime" / "model.onnx", tmp_path / "onnxruntime" / "libnet.so", 1)
    with pytest.raises(Exception, match=r"needs an index from .*, and is given 1000000000"):
        here.run(None, bad(path, FAR))
    assert here.run(None, feeds_of(path, [3]))[0].shape == (1, 4, 8)


def test_constants_and_what_cannot_be_outside_are_not_looked_at(tmp_path):
    """A place that TopK or ArgMax found, a remainder, bytes, constants: no function looks at them."""
    nodes = [
        node("ArgMax", ["x"], "most", axis=1, keepdims=0),
        node("TopK", ["x", "two"], ["best", "places"], axis=1),
        node("Cast", ["x"], "numbers", to=TensorProto.INT64),
        node("Mod", ["numbers", "forty"], "rest"),
        node("Gather", ["table", "most"], "a"),
        node("Gather", ["table", "places"], "b"),
        node("Gather", ["table", "rest"], "c"),
        node("Gather", ["table", "known"], "d"),
    ]
    constants = {"table": (40, 5), "two": np.array([2]), "forty": np.array(40), "known": np.array([-40, 39])}
    path = save(tmp_path, model(nodes, {"x": (4, 40)}, list("abcd"), constants))
    library = written(tmp_path, path)
    assert library.refusals == ()


@pytest.mark.parametrize(
    ("op", "shapes", "what", "good", "bad"),
    [
        ("Attention", [(2, 2, 5, 4)] * 3, "nonpad_kv_seqlen", [0, 5], [-1, 6]),
        ("Attention", [(2, 5, 8)] * 3, "nonpad_kv_seqlen", [3, 5], [-1, 6]),
        ("RotaryEmbedding", [(1, 2, 2, 4), (8, 2), (8, 2)], "a position", [[0, 7]], [-1, 8]),
    ],
)
def test_numbers_that_a_definition_would_take_end_the_run(tmp_path, op, shapes, what, good, bad):
    names = ["q", "k", "v"]
    more = {"q_num_heads": 2, "kv_num_heads": 2} if len(shapes[0]) == 3 else {}
    given = ["ids"] if op == "RotaryEmbedding" else ["", "", "", "ids"]
    inputs = dict(zip(names, shapes, strict=True)) | {"ids": np.shape(good)}
    made = of_indices([node(op, [*names, *given], "y", **more)], inputs, ["y"])
    made.opset_import[0].version, made.ir_version = 24, 11
    path = save(tmp_path, made)
    executable, _ = build_sets(path, TARGET, 1)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    rng = np.random.default_rng()
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in inputs.items()}
    feeds["ids"] = np.array(good)
    session = onnxruntime.InferenceSession(path)
    np.testing.assert_allclose(run(main, feeds)[0], session.run(None, feeds)[0], rtol=1e-4, atol=1e-6)
    for number in bad:
        feeds["ids"].reshape(-1)[1] = number
        with pytest.raises(REFUSALS):
            session.run(None, feeds)
        with pytest.raises(IndexError, match=rf"\({op}\) needs {what} from 0 to \d, and is given {number}$"):
            run(main, feeds)
