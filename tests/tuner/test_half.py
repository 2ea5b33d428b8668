"""Models of float16 and bfloat16: computed in float32, their inputs and outputs what they were."""

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tiny_models import model, node, save
from tvm import relax

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.ir.own_nodes import ROUNDING
from compiler.load import load_partition, read_model
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import Build, check

TARGET = CATALOGUE["x86-avx2"]


def halves(dtype=np.float16, kind=TensorProto.FLOAT16, outputs=("y", "i")):
    """Weights, a Constant, a scale and casts of 16 bits; nodes in no order; one output is integers."""
    rng = np.random.default_rng(7)
    narrow = numpy_helper.from_array(np.full(1, 0.25, np.float32).astype(dtype))
    nodes = [
        node("Relu", ["s"], "r"),
        node("Conv", ["x", "w", "b"], "c", pads=[1, 1, 1, 1]),
        node("Add", ["f", "r32"], "sum"),
        node("Cast", ["r"], "r32", to=TensorProto.FLOAT),
        node("Mul", ["c", "k"], "s"),
        node("Constant", [], "k", value=narrow),
        node("Exp", ["z"], "f"),
        node("Cast", ["sum"], "y", to=kind),
        node("ArgMax", ["y"], "i", axis=1),
    ]
    weights = {
        "w": (rng.standard_normal((8, 4, 3, 3)) / 6).astype(dtype),
        "b": rng.standard_normal(8).astype(dtype),
    }
    made = model(nodes, {"x": (1, 4, 6, 6), "z": (6,)}, list(outputs), weights)
    made.graph.input[0].type.tensor_type.elem_type = kind
    for output in made.graph.output:
        output.type.tensor_type.elem_type = TensorProto.INT64 if output.name == "i" else kind
    return made


def run(executable, *arrays):
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](*map(tvm.runtime.tensor, arrays))
    return [each.numpy() for each in ([result] if hasattr(result, "numpy") else result)]


def test_float16_is_computed_in_float32_and_keeps_its_inputs_and_outputs(tmp_path):
    path, rng = save(tmp_path, halves()), np.random.default_rng()
    assert [operator.count for operator in extract(path).operators] == [1]
    assert [(each.name, each.dtype) for each in extract(path).inputs] == [("x", "float16"), ("z", "float32")]
    executable, manifest = build_model(path, {}, TARGET)
    x = rng.standard_normal((1, 4, 6, 6)).astype(np.float16)
    z = rng.standard_normal(6).astype(np.float32)
    y, _ = run(executable, x, z)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x, "z": z})[0]
    assert y.dtype == expected.dtype == np.float16
    # onnxruntime rounds after every operator.
    np.testing.assert_allclose(y.astype(float), expected.astype(float), rtol=4e-3, atol=4e-3)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    found = check(lambda: main, Build(str(path), None, TARGET, 1, manifest.configs, manifest.tolerance))
    assert found.checked, found


def test_bfloat16(tmp_path):
    """Its weights are exact; what goes in and comes out is of 16 bits."""
    import ml_dtypes

    kind, dtype = TensorProto.BFLOAT16, ml_dtypes.bfloat16
    made = halves(dtype, kind, ("sum",))
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    path, rng = save(tmp_path, made), np.random.default_rng()
    x, z = rng.standard_normal((1, 4, 6, 6)).astype(dtype), rng.standard_normal(6).astype(np.float32)
    wide = read_model(path)
    names = {"x": x.astype(np.float32), "z": z}
    for value in wide.graph.input:
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    expected = onnxruntime.InferenceSession(wide.SerializeToString()).run(None, names)[0]
    (result,) = run(build_model(path, {}, TARGET)[0], x, z)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_a_weight_that_is_an_output_and_an_input_that_is_one_of_a_branch(tmp_path):
    """float16 in a branch, captured from outside, and as a result that no node makes."""
    then = helper.make_graph(
        [node("Add", ["x", "t"], "z")],
        "branch",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT16, None)],
        [numpy_helper.from_array(np.float16([1, 2]), "t")],
    )
    made = model(
        [node("If", ["c"], "y", then_branch=then, else_branch=then)],
        {"x": (2,)},
        ["y"],
        {"c": np.array(True)},
        dtype=TensorProto.FLOAT16,
    )
    path = save(tmp_path, made)
    x = np.float16([0.5, -3])
    executable, manifest = build_model(path, {}, TARGET)
    np.testing.assert_array_equal(run(executable, x)[0], np.float16([1.5, -1]))
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    found = check(lambda: main, Build(str(path), None, TARGET, 1, manifest.configs, manifest.tolerance))
    assert found.checked, found


def test_a_node_that_depends_on_itself(tmp_path):
    nodes = [node("Add", ["x", "b"], "a"), node("Relu", ["a"], "b"), node("Exp", ["b"], "y")]
    with pytest.raises(ModelError, match=r"'a' \(Add\) depends on its own result"):
        read_model(save(tmp_path, model(nodes, {"x": (2,)}, ["y"])))


SPECIAL = np.array(
    [0, -0.0, 1.2345678, 65504, 65519, 65520, -1e5, 3.4e38, np.inf, -np.inf, np.nan, 1e-8, 6e-8, 1e-5, 1e-40],
    np.float32,
)
ODD = np.array([0x7FFFFFFF, 0xFFC00001, 0x3F808000, 0x3F818000, 0x7F7FFFFF], np.uint32).view(np.float32)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_a_cast_to_16_bits_that_somebody_wrote_rounds(tmp_path, kind):
    """To the even of two, to infinity, and to denormals; also behind a move, and of a sum with a constant."""
    nodes = [
        node("Cast", ["x"], "b", to=kind),
        node("Reshape", ["b", "shape"], "c"),
        node("Cast", ["c"], "y", to=TensorProto.FLOAT),
        node("Mul", ["y", "three"], "product"),
        node("Cast", ["product"], "d", to=kind),
        node("Cast", ["d"], "z", to=TensorProto.FLOAT),
    ]
    x = np.concatenate([SPECIAL, ODD, np.random.default_rng().standard_normal(44).astype(np.float32)])
    constants = {"shape": np.array([8, -1]), "three": np.array(3, np.float32)}
    path = save(tmp_path, model(nodes, {"x": x.shape}, ["y", "z"], constants))
    expected = onnxruntime.InferenceSession(path).run(None, {"x": x})
    executable, manifest = build_model(path, {}, TARGET)
    for value, right in zip(run(executable, x), expected, strict=True):
        np.testing.assert_array_equal(value, right)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    found = check(lambda: main, Build(str(path), None, TARGET, 1, manifest.configs, manifest.tolerance))
    assert found.checked, found
    assert found.by.startswith("onnxruntime")
    assert "float32" not in found.by, "that is what onnxruntime makes of the file as it is"


def test_what_is_computed_in_16_bits_is_rounded_nowhere_and_the_check_says_so(tmp_path):
    """A model of float16 throughout, with casts at both ends and around a function of float32."""
    nodes = [
        node("Cast", ["x"], "h", to=TensorProto.FLOAT16),
        node("Mul", ["h", "w"], "product"),
        node("Cast", ["product"], "wide", to=TensorProto.FLOAT),
        node("Exp", ["wide"], "e"),
        node("Cast", ["e"], "narrow", to=TensorProto.FLOAT16),
        node("Add", ["narrow", "w"], "sum"),
        node("Cast", ["sum"], "y", to=TensorProto.FLOAT),
    ]
    made = model(nodes, {"x": (4,)}, ["y"], {"w": np.array([0.1, 0.2, 0.3, 0.4], np.float16)})
    path = save(tmp_path, made)
    assert [each.op_type for each in load_partition(path).graph.nodes].count(ROUNDING) == 1
    executable, manifest = build_model(path, {}, TARGET)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    found = check(lambda: main, Build(str(path), None, TARGET, 1, manifest.configs, manifest.tolerance))
    assert found.checked, found
    assert "(of the model computed in float32)" in str(found)
    x = np.array([0.1, 1.7, -0.3, 2.2], np.float32)
    w = np.array([0.1, 0.2, 0.3, 0.4], np.float16).astype(np.float32)
    right = np.exp(x.astype(np.float16).astype(np.float32) * w) + w
    np.testing.assert_allclose(run(executable, x)[0], right, rtol=1e-6)
