"""What follows results of which data decide the number, against onnxruntime: many of them, few and none."""

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

TARGET = CATALOGUE["x86-avx2"]
pytestmark = pytest.mark.usefixtures("avx2")
node = helper.make_node
COUNT, CLASSES = 30, 3
ONE, TWO, THREE, ZERO = (np.array([number]) for number in (1, 2, 3, 0))


def feeds():
    """Boxes of few and of many classes, and nothing."""
    for seed, share in ((0, 1.0), (1, 0.12), (2, 0.0)):
        random = np.random.default_rng(seed)
        scores = random.uniform(0, 1, (1, CLASSES, COUNT)) ** 3 * share
        yield {"boxes": random.uniform(0, 1, (1, COUNT, 4)).astype("f"), "scores": scores.astype("f")}


def model(nodes, outputs, **constants):
    """A model whose ``nodes`` come behind the ``rows`` of a NonMaxSuppression, of operator set 17."""
    constants |= {"most": np.array([6]), "overlap": np.float32([0.5]), "least": np.float32([0.1])}
    first = node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["rows"], name="nms")
    shapes = {"boxes": (1, COUNT, 4), "scores": (1, CLASSES, COUNT)}
    graph = helper.make_graph(
        [first, *nodes],
        "detector",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


FLOAT, LONG = TensorProto.FLOAT, TensorProto.INT64
SCORES = node("GatherND", ["scores", "rows"], ["found"])
CHAINS = {
    "columns": (
        [
            SCORES,
            node("Slice", ["rows", "zero", "one", "one"], ["image"]),
            node("Slice", ["rows", "one", "two", "one"], ["kind"]),
            node("Slice", ["rows", "two", "three", "one"], ["box"]),
            node("Concat", ["image", "box"], ["places"], axis=1),
            node("GatherND", ["boxes", "places"], ["corners"]),
            node("Unsqueeze", ["found", "one"], ["score"]),
            node("Cast", ["kind"], ["class"], to=FLOAT),
            node("Concat", ["corners", "class", "score"], ["y"], axis=1),
        ],
        {"y": FLOAT},
    ),
    "a flat gather": (
        [
            node("Gather", ["rows", "two"], ["column"], axis=1),
            node("Reshape", ["column", "line"], ["box"]),
            node("Gather", ["boxes", "box"], ["picked"], axis=1),
            node("Squeeze", ["picked", "zero"], ["y"]),
            node("Transpose", ["y"], ["z"], perm=[1, 0]),
            node("Flatten", ["y"], ["f"], axis=1),
        ],
        {"y": FLOAT, "z": FLOAT, "f": FLOAT},
    ),
    "shapes": (
        [
            node("Shape", ["rows"], ["shape"]),
            node("Gather", ["shape", "first"], ["n"]),
            node("Range", ["first", "n", "step"], ["numbers"]),
            node("Size", ["rows"], ["all"]),
            node("Unsqueeze", ["n", "zero"], ["line_of"]),
            node("ConstantOfShape", ["line_of"], ["empty"]),
            node("Add", ["empty", "empty"], ["z"]),
            node("Shape", ["shape"], ["rank"]),
            node("ConstantOfShape", ["rank"], ["ones"], value=numpy_helper.from_array(ONE)),
            node("Mul", ["ones", "line"], ["open"]),
            node("Equal", ["shape", "open"], ["is_open"]),
            node("Where", ["is_open", "ones", "shape"], ["wanted"]),
            node("Expand", ["row", "wanted"], ["y"]),
            node("Reshape", ["rows", "line"], ["flat"]),
        ],
        {"y": FLOAT, "z": FLOAT, "numbers": LONG, "all": LONG, "n": LONG, "flat": LONG},
    ),
    "the best few": (
        [
            SCORES,
            node("Shape", ["found"], ["n"]),
            node("Concat", ["n", "five"], ["both"], axis=0),
            node("ReduceMin", ["both"], ["k"], keepdims=1),
            node("TopK", ["found", "k"], ["values", "at"]),
            node("Gather", ["rows", "at"], ["y"]),
            node("Slice", ["rows", "zero", "five", "zero"], ["z"]),
            node("Slice", ["found", "two", "far", "zero"], ["w"]),
        ],
        {"y": LONG, "values": FLOAT, "z": LONG, "w": FLOAT},
    ),
    "sums and filters": (
        [
            SCORES,
            node("ReduceSum", ["found"], ["sum"], keepdims=0),
            node("Concat", ["found", "limit"], ["more"], axis=0),
            node("ReduceMax", ["more"], ["most_of_all"], keepdims=0),
            node("Greater", ["found", "limit"], ["good"]),
            node("NonZero", ["good"], ["where"]),
            node("Transpose", ["where"], ["turned"]),
            node("GatherND", ["rows", "turned"], ["y"]),
            node("ReduceMean", ["rows_f"], ["z"], axes=[1]),
        ],
        {"y": LONG, "sum": FLOAT, "most_of_all": FLOAT, "z": FLOAT},
    ),
    "put together": (
        [
            node("Cast", ["rows"], ["rows_f"], to=FLOAT),
            node("Concat", ["rows_f", "row", "rows_f"], ["y"], axis=0),
            node("Concat", ["rows_f", "zeros"], ["long"], axis=0),
            node("Slice", ["long", "zero", "hundred", "zero"], ["z"]),
            node("MatMul", ["rows_f", "square"], ["w"]),
        ],
        {"y": FLOAT, "z": FLOAT, "w": FLOAT},
    ),
    "all pairs": (
        [
            SCORES,
            node("Unsqueeze", ["found", "zero"], ["across"]),
            node("Unsqueeze", ["found", "one"], ["down"]),
            node("Sub", ["across", "down"], ["y"]),
        ],
        {"y": FLOAT},
    ),
}
CHAINS["sums and filters"][0].insert(0, node("Cast", ["rows"], ["rows_f"], to=FLOAT))
CONSTANTS = {
    "zero": ZERO, "one": ONE, "two": TWO, "three": THREE, "five": np.array([5]), "line": np.array([-1]),
    "first": np.array(0), "step": np.array(1), "row": np.float32([[1, 2, 3]]), "far": np.array([2**40]),
    "limit": np.float32([0.3]), "zeros": np.zeros((40, 3), np.float32), "hundred": np.array([40]),
    "square": np.float32([[1, 2, 0], [0, 1, 1], [2, 0, 1]]),
}  # fmt: skip


def detector(name):
    """One of ``CHAINS`` with the constants that it reads."""
    nodes, outputs = CHAINS[name]
    read = {each for one in nodes for each in one.input}
    return model(nodes, outputs, **{key: value for key, value in CONSTANTS.items() if key in read})


@pytest.mark.parametrize("name", CHAINS)
def test_what_follows_equals_onnxruntime(tmp_path, name):
    made, path = detector(name), tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    extract(path)
    executable, _ = build_model(path, {}, TARGET)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    lengths = set()
    for feed in feeds():
        wanted = session.run(None, feed)
        for found, right in zip(run(main, feed), wanted, strict=True):
            assert (found.shape, found.dtype) == (right.shape, right.dtype)
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
        lengths.add(wanted[0].shape)
    assert len(lengths) >= 2


def test_what_would_mix_rows_is_refused_by_name(tmp_path):
    path = tmp_path / "model.onnx"
    mixed = node("Einsum", ["found", "found"], ["y"], equation="i,j->ij", name="mixed")
    made = model([SCORES, mixed], {"y": FLOAT})
    path.write_bytes(made.SerializeToString())
    with pytest.raises(ModelError, match=r"'mixed' \(Einsum\).*behind node 'nms' \(NonMaxSuppression\); cut"):
        extract(path)
