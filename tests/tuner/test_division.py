"""Integers divided by 0, the least by -1, and shifts by all bits: each form of a build lives through them."""

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import helper, numpy_helper
from test_c_open import written as written_open
from test_c_shapes import written
from tflite_compare import built, by_litert
from tiny_models import save
from tvm import relax

from bench.tflite_models import Maker
from compiler.ir.checks import ModelError
from compiler.readers.tflite.convert import to_onnx
from kernels.target import CATALOGUE
from tuner.backend.comparison import run
from tuner.backend.shape_sets import build_sets
from tuner.clibrary.loaded import CallError, Loaded

TARGET = CATALOGUE["x86-avx2"]
KINDS = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")]
pytestmark = [pytest.mark.usefixtures("avx2"), pytest.mark.timeout(300)]


def of_integers(nodes, inputs, constants=None):
    """A model of ``inputs``, arrays of one type, that gives back what all nodes make."""
    kind = helper.np_dtype_to_tensor_dtype(next(iter(inputs.values())).dtype)
    values = [helper.make_tensor_value_info(name, kind, each.shape) for name, each in inputs.items()]
    outputs = [helper.make_tensor_value_info(each.output[0], kind, None) for each in nodes]
    held = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "integers", values, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def forms(folder, path):
    """What runs a model: its module and its C library."""
    executable, _ = build_sets(path, TARGET, 1)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    written(folder, path)
    loaded = Loaded(folder / "net.so", "net")
    return lambda feeds: run(main, feeds), lambda feeds: loaded.run([*feeds.values()])


@pytest.mark.parametrize(("kind", "size"), [*((kind, 37) for kind in KINDS), ("int32", 1)])
def test_a_division_by_0_is_refused_and_the_least_by_minus_1_wraps(tmp_path, kind, size):
    nodes = [
        helper.make_node("Div", ["a", "b"], ["quotient"], "quotient"),
        helper.make_node("Mod", ["a", "c"], ["rest"], "rest"),
        helper.make_node("Mod", ["a", "d"], ["signed"], "signed", fmod=1),
    ]
    ends, rng = np.iinfo(kind), np.random.default_rng()
    feeds = {name: rng.integers(ends.min, ends.max, size, kind, endpoint=True) for name in "abcd"}
    for name in "bcd":
        feeds[name][(feeds[name] == 0) | (feeds["a"] == ends.min)] = 1
    path = save(tmp_path, of_integers(nodes, feeds))
    wanted = onnxruntime.InferenceSession(path).run(None, feeds)
    wanted[2] = np.fmod(feeds["a"], feeds["d"])  # by doubles there, which do not hold all of 64 bits
    least = {name: np.full(size, ends.min if name == "a" or not ends.min else -1, kind) for name in feeds}
    for form in forms(tmp_path, path):
        for ours, right in zip(form(feeds), wanted, strict=True):
            np.testing.assert_array_equal(ours, right)
        for name, each in zip("bcd", nodes, strict=True):
            zero = np.where(np.arange(size) < size - 1, feeds[name], 0).astype(kind)
            words = rf"node '{each.name}' .* needs a divisor other than 0, and is given 0$"
            with pytest.raises((IndexError, CallError), match=words):
                form({**feeds, name: zero})
        if ends.min:
            for ours, right in zip(form(least), (ends.min, 0, 0), strict=True):
                np.testing.assert_array_equal(ours, np.full(size, right, kind))


def test_any_open_length_refuses(tmp_path):
    made = of_integers([helper.make_node("Mod", ["a", "b"], ["y"], "y")], dict.fromkeys("ab", np.arange(5)))
    for value in made.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    path, ranges = save(tmp_path, made), {name: ["1..40"] for name in "ab"}
    written_open(tmp_path, path, ranges)
    executable, _ = build_sets(path, TARGET, 1, ranges)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    loaded = Loaded(tmp_path / "net.so", "net")
    for length in (1, 23):
        a = np.arange(length) - 7
        for form in (
            lambda *feeds: run(main, dict(zip("ab", feeds, strict=True))),
            lambda *feeds: loaded.run(feeds),
        ):
            np.testing.assert_array_equal(form(a, a + 8)[0], np.mod(a, a + 8))
            with pytest.raises(
                (IndexError, CallError), match=r"needs a divisor other than 0, and is given 0$"
            ):
                form(a, a - a[-1])


@pytest.mark.parametrize("op", ["DIV", "FLOOR_DIV", "FLOOR_MOD"])
def test_a_tflite_file_refuses(op):
    make = Maker()
    given = [make.operator("CAST", [make.input((5,), name=name)], (5,), dtype="int32") for name in "ab"]
    data = make.file(make.operator("CAST", [make.operator(op, given, (5,), dtype="int32")], (5,)))
    made = built(to_onnx(data))
    feeds = {"a": np.float32([7, -7, 0, 5, -9]), "b": np.float32([2, 2, -1, -1, 4])}
    np.testing.assert_array_equal([*made(feeds).values()], [*by_litert(data, feeds).values()])
    feeds["b"][3] = 0
    with pytest.raises(RuntimeError):
        by_litert(data, feeds)
    with pytest.raises(IndexError, match=r"needs a divisor other than 0, and is given 0$"):
        made(feeds)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[0] == "u"])
def test_one_divisor_without_a_sign(tmp_path, kind):
    """TVM makes -1 of its type where a condition asks whether it is 0."""
    a = np.arange(20, dtype=kind)
    nodes = [helper.make_node("Div", ["a", "b"], ["y"], "y")]
    executable, _ = build_sets(save(tmp_path, of_integers(nodes, {"a": a, "b": a})), TARGET, 1)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    np.testing.assert_array_equal(run(main, {"a": a, "b": a % 7 + 1})[0], a // (a % 7 + 1))
    with pytest.raises(IndexError, match=r"needs a divisor other than 0, and is given 0$"):
        run(main, {"a": a, "b": a})


def test_divisors_that_cannot_be_0_are_not_looked_at(tmp_path):
    nodes = [
        helper.make_node("Max", ["b", "one"], ["above"]),
        helper.make_node("Div", ["a", "above"], ["quotient"]),
        helper.make_node("Mod", ["quotient", "seven"], ["rest"]),
    ]
    inputs = dict.fromkeys("ab", np.arange(3))
    constants = {"one": np.array(1), "seven": np.array([7, -1, 3])}
    path = save(tmp_path, of_integers(nodes, inputs, constants))
    assert written(tmp_path, path).refusals == ()


@pytest.mark.parametrize("kind", ["uint32", "uint64"])
def test_unsigned_numbers_begin_again_where_they_leave_their_type(tmp_path, kind):
    """LLVM was told that they never do, and took 0 - x for 0."""
    most = np.iinfo(kind).max
    x = np.array([0, 1, 2, 7, most // 2, most], kind)
    constants = {"zero": np.array(0, kind), "most": np.array(most, kind)}
    made = {"Sub": [("zero", "x"), ("x", "most")], "Add": [("x", "most")], "Mul": [("x", "most"), ("x", "x")]}
    nodes = [
        helper.make_node(op, each, [f"{op}{number}"])
        for op, pairs in made.items()
        for number, each in enumerate(pairs)
    ]
    path = save(tmp_path, of_integers(nodes, {"x": x}, constants))
    values = {"x": x, **constants}
    compute = {"Sub": np.subtract, "Add": np.add, "Mul": np.multiply}
    wanted = [compute[node.op_type](*(values[name] for name in node.input)) for node in nodes]
    executable, _ = build_sets(path, TARGET, 1)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    for ours, right in zip(run(main, {"x": x}), wanted, strict=True):
        np.testing.assert_array_equal(ours, right)


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_a_divisor_of_0_that_the_model_has_is_refused(tmp_path, op):
    """Also of a constant, which onnx's own evaluator takes for 0."""
    for dividend in ("x", "b"):
        nodes = [
            helper.make_node(op, [dividend, "b"], ["y"], "y"),
            helper.make_node("Add", ["x", "y"], ["z"]),
        ]
        made = of_integers(nodes, {"x": np.arange(3)}, {"b": np.array([1, 0, 2])})
        with pytest.raises(ModelError, match=rf"node 'y' \({op}\) needs a divisor other than 0"):
            build_sets(save(tmp_path, made), TARGET, 1)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[0] == "u" and kind != "uint16"])
def test_a_shift_by_all_bits_leaves_0(tmp_path, kind):
    ends = np.iinfo(kind)
    a = np.full(9, ends.max, kind)
    b = np.array([0, 1, ends.bits - 1, ends.bits, ends.bits + 1, 2 * ends.bits, 200, ends.max, 3], kind)
    for constant in (False, True):
        folder = tmp_path / str(constant)
        folder.mkdir()
        nodes = [
            helper.make_node("BitShift", ["a", "b"], [way], way, direction=way) for way in ("LEFT", "RIGHT")
        ]
        inputs = {"a": a} if constant else {"a": a, "b": b}
        path = save(folder, of_integers(nodes, inputs, {"b": b} if constant else {}))
        wanted = onnxruntime.InferenceSession(path).run(None, inputs)
        for form in forms(folder, path):
            for ours, right in zip(form(inputs), wanted, strict=True):
                np.testing.assert_array_equal(ours, right)
