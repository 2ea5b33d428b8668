"""Loop, Scan and sequences: the nodes that stand in their place compute what the model as written does."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from test_branches import branch, choice, run
from tiny_models import model, node, save
from tvm import relax

from compiler.ir.checks import ModelError
from compiler.load import load_graph, read_model
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model

COUNTERS = {"turn": TensorProto.INT64, "going": TensorProto.BOOL, "on": TensorProto.BOOL}


def body(nodes, inputs, outputs, types=None, **constants):
    """The nested graph of a loop; what is no counter is float32 of a shape that nobody says."""
    kinds = {**COUNTERS, **(types or {})}

    def value(name):
        shape = [] if name in COUNTERS else None
        return helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)

    tensors = [numpy_helper.from_array(np.array(each), name) for name, each in constants.items()]
    return helper.make_graph(nodes, "body", [*map(value, inputs)], [*map(value, outputs)], tensors)


def same(path, shapes=None, **feeds):
    """What is read has no loop and no sequence, and computes what the file does."""
    read = read_model(path, shapes)
    assert not {"Loop", "Scan", "If"}.intersection(each.op_type for each in read.graph.node)
    assert not any("Sequence" in each.op_type for each in read.graph.node)
    load_graph(path, shapes)
    for one, other in zip(run(read, feeds), run(onnx.load(path), feeds), strict=True):
        np.testing.assert_array_equal(one, other)
    return read


def data(*shape):
    return np.random.default_rng().standard_normal(shape).astype(np.float32)


def counted(count, **more):
    """y = tanh(y @ w) + x[turn], ``count`` times; every y is kept, and what is the same is made once."""
    inner = body(
        [
            node("Transpose", ["w"], "wt"),
            node("MatMul", ["s", "wt"], "m"),
            node("Gather", ["x", "turn"], "row"),
            node("Tanh", ["m"], "t"),
            node("Add", ["t", "row"], "next"),
            node("Identity", ["going"], "on"),
            node("Mul", ["next", "k"], "kept"),
        ],
        ["turn", "going", "s", "w"],
        ["on", "next", "w", "kept"],
        k=np.float32([2.0]),
    )
    nodes = [node("Loop", ["n", "", "first", "weights"], ["last", "same", "all"], body=inner)]
    values = {"n": np.array(count), "first": data(1, 4), "weights": data(4, 4)}
    return model(nodes, {"x": (5, 4)}, ["last", "all"], values, **more)


def test_a_loop_of_known_turns_and_what_every_turn_leaves(tmp_path):
    read = same(save(tmp_path, counted(4)), x=data(5, 4))
    assert sum(each.op_type == "Transpose" for each in read.graph.node) == 1
    assert sum(tensor.dims == [4, 4] for tensor in read.graph.initializer) == 1


def test_a_built_loop_multiplies_by_kernels(tmp_path):
    path = save(tmp_path, counted(3))
    executable, manifest = build_model(path, {}, CATALOGUE["x86-avx2"])
    assert len(manifest.layers) == 2  # the first turn is of constants
    x = data(5, 4)
    results = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x))
    for one, other in zip(results, run(onnx.load(path), {"x": x}), strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("limit", [2, 100])
def test_states_say_when_it_ends(tmp_path, limit):
    """As tf2onnx writes a while loop: the condition counts, and starts by being known."""
    inner = body(
        [
            node("Add", ["i", "one"], "i2"),
            node("Less", ["i2", "end"], "on"),
            node("Mul", ["s", "x"], "s2"),
            node("Relu", ["s2"], "kept"),
        ],
        ["turn", "going", "i", "s"],
        ["on", "i2", "s2", "kept"],
        {"i": TensorProto.INT32, "i2": TensorProto.INT32},
        one=np.int32(1),
    )
    nodes = [
        node("Shape", ["x"], "shape"),
        node("Cast", ["shape"], "ends", to=TensorProto.INT32),
        node("Gather", ["ends", "zero"], "end"),
        node("Less", ["start", "end"], "enter"),
        node("Loop", ["n", "enter", "start", "x"], ["ended", "y", "all"], body=inner),
    ]
    constants = {"n": np.array(limit), "start": np.int32(1), "zero": np.array(0)}
    path = save(tmp_path, model(nodes, {"x": ("n", 3)}, ["y", "all"], constants))
    same(path, {"x": [5, 3]}, x=data(5, 3))


def test_branches_and_loops_inside_a_loop(tmp_path):
    """The first turn is another than the rest; an inner loop reads what the outer one makes."""
    inner = body(
        [node("Add", ["t", "o"], "u"), node("Neg", ["u"], "t2")], ["turn", "going", "t"], ["going", "t2"]
    )
    outer = body(
        [
            node("Equal", ["turn", "zero"], "is_first"),
            choice(
                "is_first",
                ["o"],
                branch([node("Exp", ["s"], "r")], "r"),
                branch([node("Abs", ["s"], "r")], "r"),
            ),
            node("Loop", ["two", "", "s"], ["s2"], body=inner),
        ],
        ["turn", "going", "s"],
        ["going", "s2"],
        zero=np.array(0),
        two=np.array(2),
    )
    nodes = [node("Loop", ["n", "", "x"], ["y"], body=outer)]
    same(save(tmp_path, model(nodes, {"x": (2, 3)}, ["y"], {"n": np.array(3)})), x=data(2, 3))


@pytest.mark.parametrize("forms", [{}, {"scan_input_axes": [1, -1], "scan_input_directions": [0, 1]},
    {"scan_output_axes": [1, -1], "scan_output_directions": [1, 0]}], ids=str)  # fmt: skip
def test_scans(tmp_path, forms):
    inner = body(
        [node("Add", ["s", "a"], "u"), node("Mul", ["u", "b"], "s2"), node("Sub", ["u", "b"], "v")],
        ["s", "a", "b"],
        ["s2", "v", "u"],
    )
    nodes = [node("Scan", ["first", "x", "z"], ["last", "p", "q"], body=inner, num_scan_inputs=2, **forms)]
    made = model(nodes, {"x": (4, 4), "z": (4, 4)}, ["last", "p", "q"], {"first": data(4)})
    same(save(tmp_path, made), x=data(4, 4), z=data(4, 4))


@pytest.mark.parametrize("stacked", [0, 1])
def test_sequences_that_loops_read_and_fill(tmp_path, stacked):
    """As torch writes a scripted loop over the rows of a tensor, which appends to a list."""
    inner = body(
        [
            node("SequenceAt", ["rows", "turn"], "row"),
            node("Tanh", ["row"], "new"),
            node("SequenceInsert", ["list", "new"], "longer"),
            node("SequenceInsert", ["longer", "row", "zero"], "longest"),
        ],
        ["turn", "going", "list"],
        ["going", "longest"],
        zero=np.array(0),
    )
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    inner.input[2].type.CopyFrom(kind)
    inner.output[1].type.CopyFrom(kind)
    nodes = [
        node("SplitToSequence", ["x"], "rows", keepdims=1 - stacked),
        node("SequenceLength", ["rows"], "n"),
        node("SequenceEmpty", [], "empty"),
        node("Loop", ["n", "", "empty"], ["list"], body=inner),
        node("SequenceErase", ["list", "two"], "shorter"),
        node("ConcatFromSequence", ["shorter"], "y", axis=0, new_axis=stacked),
    ]
    same(save(tmp_path, model(nodes, {"x": (3, 4)}, ["y"], {"two": np.array(-2)})), x=data(3, 4))


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("kind", ["Loop", "Loop of a condition", "Scan"])
def test_no_turn_leaves_states_and_nothing_beside_them(kind, tmp_path):
    """What a turn would make is not computed: it reads a row of a tensor that has none."""
    nodes = [node("Gather", ["rows", "turn"], "row"), node("Add", ["s", "row"], "next")]
    inputs, ends = {"x": (3,), "rows": (0, 3)}, ["y", "kept"]
    if kind == "Scan":
        inner = body([node("Add", ["s", "row"], "next")], ["s", "row"], ["next", "next"])
        made = [node("Scan", ["x", "rows"], ends, body=inner, num_scan_inputs=1)]
    else:
        inner = body(nodes, ["turn", "going", "s"], ["going", "next", "next"])
        names = {"Loop": ["n", "", "x"], "Loop of a condition": ["", "no", "x"]}[kind]
        made = [node("Loop", names, ends, body=inner)]
    constants = {"n": np.array(0), "no": np.array(False)}
    path = save(tmp_path, model(made, inputs, ends, constants))
    assert not any(each.op_type == "Add" for each in load_graph(path).nodes)
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    x = data(3)
    feeds = map(tvm.runtime.tensor, (x, np.zeros((0, 3), np.float32)))
    state, kept = (each.numpy() for each in relax.VirtualMachine(executable, tvm.cpu())["main"](*feeds))
    np.testing.assert_array_equal(state, x)
    assert kept.shape == (0, 3)


def refused(tmp_path, nodes, words, inputs=None, **constants):
    with pytest.raises(ModelError, match=words):
        read_model(save(tmp_path, model(nodes, inputs or {"x": (2, 3)}, ["y"], constants)))


def test_what_is_not_unrolled(tmp_path):
    """Turns that data end, or a value that a user can give, or far too many."""
    plain = body([node("Exp", ["s"], "s2")], ["turn", "going", "s"], ["going", "s2", "s2"])
    loop = node("Loop", ["n", "", "x"], ["end", "y"], body=plain)
    sums = [node("ReduceSum", ["x"], "t", keepdims=0), node("Cast", ["t"], "n", to=TensorProto.INT64)]
    refused(tmp_path, [*sums, loop], r"'end' \(Loop\).*--value x")
    refused(tmp_path, [*sums, loop], r"'end' \(Loop\).*until data", {"x": (20, 3)})
    refused(tmp_path, [node("Loop", ["", "", "x"], ["end", "y"], body=plain)], r"\(Loop\) never ends")
    at = [node("SequenceConstruct", ["x", "x"], "s"), node("SequenceAt", ["s", "p"], "y")]
    refused(tmp_path, at, r"\(SequenceAt\) reads place 2 of a sequence of 2", p=np.array(2))
    grown = body(
        [node("Tanh", ["x"], "new"), node("SequenceInsert", ["list", "new"], "longer")],
        ["turn", "going", "list"],
        ["going", "longer"],
    )
    for value in (grown.input[2], grown.output[1]):
        kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
        value.type.CopyFrom(kind)
    nodes = [node("SequenceEmpty", [], "empty"), node("Loop", ["n", "", "empty"], ["list"], body=grown)]
    nodes += [node("ConcatFromSequence", ["list"], "y", axis=0)]
    refused(tmp_path, [*sums, *nodes], r"'list' \(Loop\) hands a sequence .* Loop stacks", {"x": (20, 3)})


@pytest.mark.parametrize(
    ("op", "operands", "way_out"),
    [
        ("SequenceAt", ["s", "n"], "by Gather"),
        ("SequenceErase", ["s", "n"], "ScatterElements"),
        ("SequenceInsert", ["s", "x", "n"], "ScatterElements"),
        ("SplitToSequence", ["x", "n"], "lengths that are constants"),
    ],
)
def test_places_and_lengths_of_sequences_from_data_are_refused_with_a_way_out(
    tmp_path, op, operands, way_out
):
    """Where it is an input that tells them, its value may be given; the tensors' need not."""
    behind = [node("ConcatFromSequence", ["t"], "y", axis=0)]
    nodes = [node("SequenceConstruct", ["x", "x"], "s"), node(op, operands, "t"), *behind]
    if op == "SequenceAt":
        nodes = [nodes[0], node(op, operands, "y")]
    sums = [node("ReduceSum", ["x"], "sum", keepdims=0), node("Cast", ["sum"], "n", to=TensorProto.INT64)]
    refused(tmp_path, [*sums, *nodes], rf"\({op}\) .*depends on data.*{way_out}")
    made = model(nodes, {"x": (2, 3), "n": ()}, ["y"])
    made.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(ModelError, match=rf"\({op}\) does depends on the input 'n': .*--value n=NUMBER$"):
        read_model(save(tmp_path, made))


@pytest.mark.parametrize("parts", [[2, 3], [5, -1], 0, -1])
def test_parts_of_a_sequence_that_are_not_its_axis(tmp_path, parts):
    nodes = [node("SplitToSequence", ["x", "n"], "s"), node("ConcatFromSequence", ["s"], "y", axis=0)]
    refused(tmp_path, nodes, r"\(SplitToSequence\) splits 4 elements", {"x": (4, 3)}, n=np.array(parts))


@pytest.mark.parametrize("opset", [12, 18])
def test_turns_that_do_not_depend_on_one_another_are_computed_at_once(opset, tmp_path):
    """The distances of all rows to 300 others, as scikit-learn's converter writes its nearest neighbours."""
    axes = {"axes": [1]} if opset < 18 else {}
    inner = body(
        [
            node("Identity", ["rows"], "rows_on"),
            node("Sub", ["rows", "other"], "apart"),
            node("ReduceSumSquare", ["apart"] if axes else ["apart", "axis"], "far", keepdims=0, **axes),
            node("Identity", ["far"], "scan"),
        ],
        ["rows", "other"],
        ["rows_on", "scan"],
        **({} if axes else {"axis": np.array([1])}),
    )
    nodes = [
        node("Scan", ["x", "others"], ["rest", "y"], body=inner, num_scan_inputs=1),
    ]
    path = save(tmp_path, model(nodes, {"x": (5, 7)}, ["y"], {"others": (300, 7)}, opset=opset))
    read = read_model(path)
    assert len(read.graph.node) < 5
    x = data(5, 7)
    for one, other in zip(run(read, {"x": x}), run(onnx.load(path), {"x": x}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    load_graph(path)


def test_turns_that_depend_on_one_another_are_not(tmp_path):
    """A state that grows by every row: the first of the results is of one row, the last of all."""
    inner = body(
        [node("Add", ["sum", "row"], "more"), node("Identity", ["more"], "scan")],
        ["sum", "row"],
        ["more", "scan"],
    )
    nodes = [node("Scan", ["start", "x"], ["last", "y"], body=inner, num_scan_inputs=1)]
    path = save(tmp_path, model(nodes, {"x": (6, 3)}, ["y", "last"], {"start": np.zeros(3, np.float32)}))
    same(path, x=data(6, 3))
