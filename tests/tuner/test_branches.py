"""If: the branch that is taken, in place of the node, computes what the model as written does."""

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tiny_models import model, node, save
from tvm import relax

from compiler.intake.assemble import assemble, assembled
from compiler.ir.checks import ModelError
from compiler.load import load_graph, read_model
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model


def branch(nodes, *outputs, **constants):
    """A nested graph; shapes are left to inference."""
    tensors = [numpy_helper.from_array(np.float32(value), name) for name, value in constants.items()]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    return helper.make_graph(nodes, "branch", [], values, tensors)


def choice(condition, outputs, then, otherwise):
    return node("If", [condition], outputs, then_branch=then, else_branch=otherwise)


def run(made, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    names = {value.name for value in session.get_inputs()}
    return session.run(None, {name: value for name, value in feeds.items() if name in names})


def settled_is_the_same(path, shapes=None, **feeds):
    """The model with its branches chosen has no If, and computes what the file does."""
    read = read_model(path, shapes)
    assert all(each.op_type != "If" for each in read.graph.node)
    for one, other in zip(run(read, feeds), run(onnx.load(path), feeds), strict=True):
        np.testing.assert_array_equal(one, other)
    return read


@pytest.mark.parametrize("taken", [True, False])
def test_names_constants_and_captured_tensors(tmp_path, taken):
    """Both branches and the graph use the same names, and read what lies around them."""
    then = branch([node("Add", ["h", "k"], "t"), node("Mul", ["t", "x"], "out")], "out", k=2.0)
    other = branch([node("Sub", ["h", "k"], "t"), node("Neg", ["t"], "out")], "out", k=[3.0, 4.0])
    nodes = [
        *(node("Relu", ["x"], "h"), choice("c", ["a"], then, other), choice("d", ["b"], then, other)),
        *(node("Add", ["a", "b"], "out"), node("Add", ["out", "outer"], "y"), node("Abs", ["k"], "unused")),
    ]
    nodes.insert(0, node("Exp", ["x"], "outer"))
    made = model(
        nodes, {"x": (2,)}, ["y"], {"c": np.array(taken), "d": np.array([not taken]), "k": np.float32([5])}
    )
    path = save(tmp_path, made)
    settled_is_the_same(path, x=np.float32([-1.5, 2.25]))


@pytest.mark.parametrize("taken", [True, False])
def test_branches_inside_branches_and_constants_as_results(tmp_path, taken):
    """An inner branch reads an outer branch's tensor; a result is a constant."""
    inner = choice(
        "d", ["i"], branch([node("Add", ["s", "x"], "r")], "r"), branch([node("Mul", ["s", "s"], "r")], "r")
    )
    then = branch([node("Exp", ["x"], "s"), inner, node("Neg", ["i"], "n")], "n", "k", k=[7.0])
    other = branch([node("Identity", ["h"], "s")], "s", "m", m=[2.0, 3.0])
    nodes = [node("Relu", ["x"], "h"), choice("c", ["p", "q"], then, other)]
    made = model(nodes, {"x": (3,)}, ["p", "q"], {"c": np.array(taken), "d": np.array(not taken)})
    settled_is_the_same(save(tmp_path, made), x=np.float32([-1, 0, 3]))


def test_a_condition_of_shapes_and_a_branch_that_would_not_fit(tmp_path):
    """The condition is the rank or an extent; the other branch has shapes that go with no input."""
    bad = branch([node("MatMul", ["x", "w"], "z")], "z", w=np.ones((9, 9)))
    good = branch([node("MatMul", ["x", "w"], "z")], "z", w=np.ones((4, 2)))
    nodes = [
        *(node("Shape", ["x"], "s"), node("Gather", ["s", "one"], "e"), node("Equal", ["e", "four"], "c")),
        *(choice("c", ["p"], good, bad), node("Shape", ["p"], "ps"), node("Gather", ["ps", "one"], "pe")),
        *(
            node("Equal", ["pe", "four"], "d"),
            choice("d", ["y"], bad, branch([node("Exp", ["p"], "e2")], "e2")),
        ),
    ]
    made = model(nodes, {"x": ("n", "k")}, ["y"], {"one": np.array(1), "four": np.array(4)})
    path = save(tmp_path, made)
    settled_is_the_same(path, {"x": [3, 4]}, x=np.ones((3, 4), np.float32))
    with pytest.raises(ModelError, match="do not fit"):
        load_graph(path, {"x": [3, 5]})


def rates():
    """A network for each of two rates, which it is told."""
    then = branch([node("Gemm", ["x", "w"], "h"), node("Relu", ["h"], "r")], "r", w=np.eye(4, 3))
    other = branch([node("Gemm", ["x", "w"], "h"), node("Tanh", ["h"], "r")], "r", w=np.ones((4, 3)))
    made = model(
        [node("Equal", ["rate", "k"], "c"), choice("c", ["y"], then, other)],
        {"x": (2, 4)},
        ["y"],
        {"k": np.array(16000)},
    )
    made.graph.input.append(helper.make_tensor_value_info("rate", TensorProto.INT64, []))
    return made


@pytest.mark.parametrize("rate", [16000, 8000])
def test_a_value_decides_and_the_build_computes_that_branch(tmp_path, rate):
    path = save(tmp_path, rates())
    x = np.random.default_rng().standard_normal((2, 4)).astype(np.float32)
    expected = run(onnx.load(path), {"x": x, "rate": np.array(rate)})[0]
    with assembled(path, {"rate": [rate]}) as whole:
        assert [value.name for value in onnx.load(whole).graph.input] == ["x"]
        executable, manifest = build_model(whole, {}, CATALOGUE["x86-avx2"])
    assert len(manifest.layers) == 1
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_what_is_not_known_is_refused_with_what_would_help(tmp_path):
    path = save(tmp_path, rates())
    with pytest.raises(ModelError, match=r"'y' \(If\).*'rate'.*--value rate=NUMBER"):
        read_model(path)


def by_data(then, otherwise, **shapes):
    """A model whose data says which branch is taken: the sign of its sum."""
    nodes = [node("ReduceSum", ["x"], "s", keepdims=1), node("Greater", ["s", "k"], "c")]
    return model(
        [*nodes, choice("c", ["y"], then, otherwise)],
        {"x": (1, 40), **shapes},
        ["y"],
        {"k": np.float32([[0]])},
    )


def test_data_chooses_between_results_of_both_branches(tmp_path):
    """Built, for either answer; the branch that is not taken makes infinities."""
    inner = choice("c", ["i"], branch([node("Exp", ["x"], "e")], "e"), branch([node("Neg", ["x"], "e")], "e"))
    then = branch([inner, node("Add", ["i", "k2"], "r")], "r", k2=[2.0])
    other = branch([node("Sqrt", ["x"], "q"), node("Log", ["s"], "l"), node("Add", ["q", "l"], "r")], "r")
    path = save(tmp_path, by_data(then, branch([node("Abs", ["x"], "r")], "r")))
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    data = np.abs(np.random.default_rng().standard_normal((1, 40)).astype(np.float32))
    for x in (data, -data):
        expected = run(onnx.load(path), {"x": x})[0]
        np.testing.assert_allclose(main(tvm.runtime.tensor(x)).numpy(), expected, rtol=1e-5)
    settled_is_the_same(save(tmp_path, by_data(then, other)), x=data)


def test_branches_that_cannot_both_be_computed_are_refused(tmp_path):
    fine = branch([node("Exp", ["x"], "r")], "r")
    wide = branch([node("Concat", ["x", "x"], "r", axis=1)], "r")
    flat = branch([node("Reshape", ["x", "n"], "r")], "r")
    flat.initializer.append(numpy_helper.from_array(np.array([40]), "n"))
    with pytest.raises(ModelError, match=r"\(Where\).*data decides 'y' \(If\)"):
        read_model(save(tmp_path, by_data(fine, wide)))
    with pytest.raises(ModelError, match=r"'y' \(If\).*'y' of different shapes"):
        read_model(save(tmp_path, by_data(fine, flat)))
    indexed = branch([node("Cast", ["x"], "i", to=TensorProto.INT64), node("Gather", ["x", "i"], "g")], "g")
    with pytest.raises(ModelError, match=r"'y' \(If\).*\(Gather\) may only be computed"):
        read_model(save(tmp_path, by_data(indexed, fine)))


def test_branches_are_checked_like_the_rest(tmp_path):
    """Data outside the file, and operators that nobody knows, in a branch."""
    outside = branch([node("Add", ["x", "k"], "z")], "z", k=[1.0, 2.0])
    outside.initializer[0].ClearField("raw_data")
    outside.initializer[0].data_location = TensorProto.EXTERNAL
    outside.initializer[0].external_data.add(key="location", value="/etc/passwd")
    strange = branch([node("Frobnicate", ["x"], "z", domain="mine")], "z")
    fine = branch([node("Exp", ["x"], "z")], "z")
    for wrong, word in ((outside, "'k'"), (strange, "mine")):
        made = model([choice("c", ["y"], wrong, fine)], {"x": (2,)}, ["y"], {"c": np.array(True)})
        with pytest.raises(ModelError, match=word):
            read_model(save(tmp_path, made))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"z": [1]}, "no input 'z'.*'n'.*'x'"),
        ({"n": [1.5]}, "'n' is int64"),
        ({"n": [2**70]}, "'n' is int64"),
        ({"n": [1, 2]}, "2 values"),
        ({"x": [1.0]}, "'x' has the shape"),
        ({"w": [1.0]}, "no input 'w'"),
    ],
)
def test_values_that_do_not_fit(tmp_path, values, words):
    made = model([node("Add", ["x", "w"], "y")], {"x": (2, "k")}, ["y"], {"w": (1,)})
    made.graph.input.append(helper.make_tensor_value_info("n", TensorProto.INT64, []))
    with pytest.raises(ModelError, match=words):
        assemble(save(tmp_path, made), tmp_path / "whole.onnx", values)


def test_a_value_of_an_old_model_whose_weights_are_inputs_too(tmp_path):
    """Several values of a shape that has a free extent."""
    made = model([node("Add", ["x", "k"], "y")], {"x": (2,), "k": ("n",)}, ["y"], opset=8, ir_version=3)
    with assembled(save(tmp_path, made), {"k": [3, 0.5]}) as whole:
        result = run(read_model(whole), {"x": np.float32([1, 2])})
    np.testing.assert_array_equal(result[0], np.float32([4, 2.5]))
