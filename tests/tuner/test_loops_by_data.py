"""Loops that data end: one function of a built module, which makes as many turns as the model does."""

import numpy as np
import onnxruntime
import pytest
import tvm
from test_branches import branch, choice
from test_loops_unrolled import body
from test_tflite_subgraphs import counting
from tflite_compare import by_litert
from tiny_models import model, node, save
from tvm import relax

from bench.tflite_models import Maker
from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.load import read_model
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from tuner.backend.shape_sets import build_sets

TARGET = CATALOGUE["x86-avx2"]
pytestmark = pytest.mark.usefixtures("avx2")


def root(limit="", condition="", collected=False):
    """Newton's way to a root of x, until it is near; two values that change places; all that was tried."""
    nodes = [
        node("Div", ["x", "s"], "d"),
        node("Add", ["s", "d"], "sum"),
        node("Mul", ["sum", "half"], "s2"),
        node("MatMul", ["s2", "w"], "m"),
        node("Mul", ["s2", "s2"], "square"),
        node("Sub", ["square", "x"], "off"),
        node("Abs", ["off"], "away"),
        node("ReduceMax", ["away"], "worst", keepdims=0),
        node("Greater", ["worst", "near"], "on"),
    ]
    results = ["on", "s2", "q", "p", *(["m"] if collected else [])]
    inner = body(nodes, ["turn", "going", "s", "p", "q"], results, half=np.float32(0.5))
    outputs = ["y", "first", "second", *(["tried"] if collected else [])]
    loop = node("Loop", [limit, condition, "ones", "x", "other"], outputs, body=inner)
    before = [
        node("ReduceMax", ["x"], "largest", keepdims=0),
        node("Greater", ["largest", "near"], "some"),
        node("Add", ["x", "ones"], "other"),
    ]
    constants = {"ones": np.ones((2, 3), np.float32), "near": np.float32(1e-3), "w": (3, 2)}
    return model([*before, loop], {"x": (2, 3)}, outputs, {**constants, "limit": np.array(12)})


def same(path, *feeds):
    """Turns of each are as many as onnxruntime makes."""
    extract(path)
    executable, _ = build_model(path, {}, TARGET)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = []
    for feed in feeds:
        wanted = session.run(None, feed)
        for ours, right in zip(run(main, feed), wanted, strict=True):
            assert (ours.shape, ours.dtype) == (right.shape, right.dtype)
            np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-6)
        found.append(wanted)
    return found


XS = [{"x": np.full((2, 3), number, np.float32)} for number in (1.0, 2.0, 50.0, 0.0)]


def test_it_ends_where_data_say(tmp_path):
    same(save(tmp_path, root()), *XS[:3])


@pytest.mark.parametrize("swapped", [False, True])
def test_a_branch_with_all_the_work_is_computed_where_it_is_taken(swapped, tmp_path):
    work = branch([node("MatMul", ["x", "w"], "m"), node("Relu", ["m"], "then")], "then")
    idle = branch([node("Neg", ["x"], "else")], "else")
    nodes = [
        node("ReduceMax", ["x"], "largest", keepdims=1),
        node("Greater", ["largest", "near"], "some"),
        choice("some", ["z"], *((idle, work) if swapped else (work, idle))),
        node("Add", ["z", "x"], "y"),
    ]
    constants = {"near": np.full((1, 1), 1.5, np.float32), "w": (3, 3)}
    path = save(tmp_path, model(nodes, {"x": (2, 3)}, ["y"], constants))
    assert [each.op_type for each in read_model(path).graph.node].count("TilefleetLoop") == 1
    same(path, *XS[:3])


def test_what_turns_leave_is_as_long_as_there_were_turns(tmp_path):
    path = save(tmp_path, root("limit", "some", collected=True))
    lengths = [len(each[3]) for each in same(path, *XS[:3])]
    assert lengths == sorted({*lengths})
    executable, _ = build_model(path, {}, TARGET)
    nothing = run(relax.VirtualMachine(executable, tvm.cpu())["main"], XS[3])
    assert nothing[3].shape == (0, 2, 2)
    np.testing.assert_array_equal(nothing[0], np.ones((2, 3)))


TYPES = {"i": 7, "i2": 7, "flag": 9, "flag2": 9, "same": 9, "ended": 9}


def assigning():
    """As Paddle's exporter writes ``a[:, i] = x @ w * i`` until one is large, every variable a state.

    No turn changes w, none reads ``late``, nobody ``lost``, and ``flag`` is a number of one axis or none.
    """
    nodes = [
        node("Cast", ["i"], "f", to=1), node("Add", ["f", "onef"], "f1"), node("Cast", ["f1"], "i2", to=7),
        node("MatMul", ["x", "w"], "m"), node("Mul", ["m", "f"], "v"),
        node("Reshape", ["i", "all"], "begin"), node("Reshape", ["i2", "all"], "after"),
        node("Shape", ["a"], "sizes"), node("Gather", ["sizes", "one"], "size", axis=0),
        node("Min", ["size", "after"], "end"), node("Slice", ["a", "begin", "end", "one", "one"], "part"),
        node("Shape", ["part"], "shape"), node("Unsqueeze", ["v", "one"], "v1"),
        node("Expand", ["v1", "shape"], "spread"), node("Squeeze", ["begin"], "b"),
        node("Squeeze", ["end"], "e"), node("Squeeze", ["one"], "s"), node("Range", ["b", "e", "s"], "r"),
        node("Reshape", ["r", "middle"], "r3"), node("Slice", ["shape", "none", "one"], "rows"),
        node("Slice", ["shape", "two", "three"], "columns"),
        node("Concat", ["rows", "one", "columns"], "times", axis=0), node("Tile", ["r3", "times"], "t"),
        node("ScatterElements", ["a", "t", "spread"], "a2", axis=1),
        node("ReduceMax", ["a2"], "total", keepdims=0), node("Less", ["total", "most"], "few"),
        node("Less", ["i2", "nine"], "soon"), node("And", ["few", "soon"], "on"),
        node(
            "If", ["on"], "flag2",
            then_branch=body([node("Identity", ["flag"], "same")], [], ["same"], TYPES),
            else_branch=body([node("Identity", ["yes"], "ended")], [], ["ended"], TYPES, yes=[True]),
        ),
    ]  # fmt: skip
    constants = {
        "onef": np.float32(1), "one": np.array([1]), "all": np.array([-1]), "none": np.array([0]),
        "two": np.array([2]), "three": np.array([3]), "middle": np.array([1, -1, 1]), "most": np.float32(40),
        "nine": np.array(9),
    }  # fmt: skip
    own = ["i", "a", "w", "late", "lost", "flag"]
    inner = body(
        nodes, ["turn", "going", *own], ["on", "i2", "a2", "w", "a2", "v", "flag2"], TYPES, **constants
    )
    first = ["zero", "zeros", "w", "nothing", "nothing", "no"]
    outputs = ["count", "y", "same_w", "z", "unused", "f"]
    before = {"zero": np.array(0), "zeros": np.zeros((2, 5, 3), np.float32), "w": (3, 3)}
    before |= {"nothing": np.float32(0), "no": np.array(False)}
    loop = node("Loop", ["", "", *first], outputs, body=inner)
    numbers = [node("Cast", [name], f"{name}s", to=1) for name in ("count", "f")]
    numbers.append(node("ReduceSum", ["fs"], "flagged", keepdims=0))
    return model([loop, *numbers], {"x": (2, 3)}, ["counts", "y", "same_w", "z", "flagged"], before)


def test_paddles_loops(tmp_path):
    """The last turns are behind the array's end, where they assign nothing."""
    random = np.random.default_rng(0)
    feeds = [{"x": random.normal(size=(2, 3)).astype(np.float32) * size} for size in (1, 8, 100)]
    turns = [int(each[0]) for each in same(save(tmp_path, assigning()), *feeds)]
    assert len(set(turns)) > 1


def nested():
    """A loop inside a loop, over any number of rows."""
    inner = root().graph
    inner_loop = next(each for each in inner.node if each.op_type == "Loop")
    inner_loop.input[2:] = ["s"] * 3
    nodes = [inner_loop, node("Add", ["y", "second"], "t"), node("ReduceSum", ["t"], "all", keepdims=0)]
    nodes.append(node("Less", ["all", "enough"], "on"))
    outer = body(nodes, ["turn", "going", "s"], ["on", "t"])
    constants = {"near": np.float32(1e-3), "enough": np.float32(40)}
    loop = node("Loop", ["", "", "x"], ["y_last"], body=outer)
    return model([loop], {"x": ("n", 3)}, ["y_last"], constants | {"w": (3, 2)})


def test_a_loop_inside_a_loop_and_several_shapes(tmp_path):
    path = save(tmp_path, nested())
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    executable, _ = build_sets(path, TARGET, shapes=[{"x": [1, 3]}, {"x": [2, 3]}])
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    for rows in (1, 2):
        feed = {"x": np.full((rows, 3), 0.5, np.float32)}
        np.testing.assert_allclose(run(main, feed)[0], session.run(None, feed)[0], rtol=1e-5)


def test_too_many_turns_to_write_down(tmp_path):
    inner = body([node("Sin", ["s"], "s2")], ["turn", "going", "s"], ["going", "s2"])
    made = model(
        [node("Loop", ["n", "", "x"], ["y"], body=inner)], {"x": (2, 3)}, ["y"], {"n": np.array(9000)}
    )
    same(save(tmp_path, made), *XS[:2])


@pytest.mark.parametrize(
    ("nodes", "results", "words"),
    [
        ([("Concat", ["s", "s"], "s2")], ["on", "s2"], r"makes float32 of \[40, 3\].*keep their shapes"),
        ([("Exp", ["s"], "s2")], ["on", "s2", "s2"], r"collects 'all'.*no constant limits its turns"),
    ],
)
def test_what_cannot_be(tmp_path, nodes, results, words):
    """Values that grow, and collections that nothing limits, are refused with the way out."""
    more = {"axis": 0} if nodes[0][0] == "Concat" else {}
    steps = [node(*each, **more) for each in nodes]
    steps += [node("ReduceSum", ["s2"], "t", keepdims=0), node("Less", ["t", "x_most"], "on")]
    inner = body(steps, ["turn", "going", "s"], results, x_most=np.float32(9))
    outputs = ["y", "all"][: len(results) - 1]
    loop = node("Loop", ["", "", "x"], outputs, body=inner)
    with pytest.raises(ModelError, match=words):
        read_model(save(tmp_path, model([loop], {"x": (20, 3)}, outputs)))


def test_tflites_while_by_data(tmp_path):
    """A value is halved until it is small."""
    maker = Maker()
    data = maker.input((2, 3))
    with maker.subgraph() as condition:
        value = maker.tensor((2, 3))
        worst = maker.operator(
            "REDUCE_MAX", [maker.operator("ABS", [value], (2, 3)), maker.numbers(0, 1)], ()
        )
        maker.graph.inputs = [value]
        maker.graph.outputs = [
            maker.operator("GREATER", [worst, maker.tensor((), values=np.float32(1))], (), dtype="bool")
        ]
    with maker.subgraph() as halved:
        value = maker.tensor((2, 3))
        maker.graph.inputs = [value]
        half = maker.tensor((), values=np.float32(0.5))
        maker.graph.outputs = [maker.operator("MUL", [value, half], (2, 3))]
    numbers = {"condSubgraphIndex": condition, "bodySubgraphIndex": halved}
    file = maker.file(maker.operator("WHILE", [data], (2, 3), **numbers))
    path = tmp_path / "loop.tflite"
    path.write_bytes(file)
    executable, _ = build_model(path, {}, TARGET)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    for scale in (0.5, 3, 1000):
        feed = {"x": np.linspace(-scale, scale, 6).reshape(2, 3).astype(np.float32)}
        np.testing.assert_allclose(run(main, feed)[0], by_litert(file, feed)["y"], rtol=1e-6)


def test_a_counter_that_never_gets_there_is_still_refused(tmp_path):
    path = tmp_path / "loop.tflite"
    path.write_bytes(counting(4, by=0))
    with pytest.raises(ModelError, match=r"\(Loop\) has more than"):
        read_model(path)
