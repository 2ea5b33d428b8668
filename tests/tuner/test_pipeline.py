"""The list of passes: each does what it says, none can be left out, and the model is shown after each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

from compiler.dump import ir_text
from compiler.ir.checks import ModelError
from compiler.passes.compilation import Compilation, Pass, run
from compiler.passes.pipeline import PIPELINE, PRODUCTS

HEAD = '<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1, "ai.onnx.ml" : 3]>\n'
QUANTIZED = "zero = Constant <value = int8 {0}> () one = Constant <value = float {0.5}> ()"
WEIGHTS = "w = Constant <value = int8[4,4] {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}> ()"


def model(text: str, opset: int = 17, **constants: np.ndarray) -> ModelProto:
    """A model by onnx's text; ``constants`` are initializers."""
    made = onnx.parser.parse_model(HEAD.replace("{opset}", str(opset)) + text)
    made.graph.initializer.extend(numpy_helper.from_array(each, name) for name, each in constants.items())
    return made


def old_relu() -> ModelProto:
    """Operator set 1, with an attribute that no later one has."""
    made = model("g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }", opset=1)
    made.graph.node[0].attribute.append(helper.make_attribute("consumed_inputs", [0]))
    return made


def no_rank() -> ModelProto:
    """An input without a shape, which the user gives."""
    made = model(
        "g (float[1] x, float[2,3] z) => (float[4,3] y) { y = com.microsoft.FusedMatMul <transA = 1> (x, z) }"
    )
    made.graph.input[0].type.tensor_type.ClearField("shape")
    return made


def votes() -> ModelProto:
    """A support vector machine of three classes, which are chosen by a loop."""
    made = model("g (float[1,2] x) => (int64[1] y, float[1,3] z) { y = Identity (x) z = Identity (x) }")
    node = helper.make_node(
        "SVMClassifier",
        ["x"],
        ["y", "z"],
        domain="ai.onnx.ml",
        classlabels_ints=[0, 1, 2],
        coefficients=[1.0, -1.0, 0.5, -0.5, 0.3, 0.2],
        kernel_params=[0.5, 0.0, 3.0],
        kernel_type="RBF",
        prob_a=[-1.0, -1.1, -0.9],
        prob_b=[0.0, 0.1, 0.2],
        rho=[0.1, 0.2, 0.3],
        support_vectors=[1.0, 2.0, 0.0, 1.0, 2.0, 0.5],
        vectors_per_class=[1, 1, 1],
        post_transform="NONE",
    )
    del made.graph.node[:]
    made.graph.node.append(node)
    return made


CONV = np.arange(2 * 3 * 3 * 3, dtype=np.float32).reshape(2, 3, 3, 3)
WITNESSES: dict[str, Callable[[], ModelProto]] = {
    "SortNodes": lambda: model("g (float[2,3] x) => (float[2,3] y) { y = Neg (a) a = Abs (x) }"),
    "RaiseOldestOpsets": old_relu,
    "SeparateOutputs": lambda: model("g (float[2,3] x) => (float[2,3] x, float[2,3] y) { y = Neg (x) }"),
    "InlineControlFlow": lambda: model(
        "g (float[2] x) => (float[2] y) { c = Constant <value = bool {1}> ()"
        " y = If (c) <then_branch = t () => (float[2] a) { a = com.microsoft.Gelu (x) },"
        " else_branch = e () => (float[2] b) { b = Abs (x) }> }"
    ),
    "CanonicalizeQuantization": lambda: model(
        f"g (int8[3,4] x) => (int8[3,4] y) {{ {QUANTIZED} {WEIGHTS}"
        " y = QLinearMatMul (x, one, zero, w, one, zero, one, zero) }"
    ),
    "RaiseOpset": lambda: model(
        "g (float[2,4] x) => (float[2,4] y) { y = com.microsoft.Trilu (x) }", opset=9
    ),
    "FixKnownShapes": no_rank,
    "ExpandOtherDomains": lambda: model("g (float[2,4] x) => (float[2,4] y) { y = com.microsoft.Gelu (x) }"),
    "CheckStructure": lambda: model("g (float[2,4] x) => (float[2,4] y) { y = Nonsense (x) }"),
    "FixInputShapes": lambda: model("g (float[unknown,4] x) => (float[unknown,4] y) { y = Neg (x) }"),
    "InlineExpandedLoops": votes,
    "PromoteHalf": lambda: model("g (float16[2,4] x) => (float16[2,4] y) { y = Mul (x, x) }"),
    "BoundDataDependentShapes": lambda: model("g (float[2,3] x) => (int64[2,n] y) { y = NonZero (x) }"),
    "ImportGraph": lambda: model("g (float[2,3] x) => (float[2,3] y) { y = Neg (x) }"),
    "Legalize": lambda: model(
        'g (float[2,3] x, float[3,2] z) => (float[2,2] y) { y = Einsum <equation = "ij,jk->ik"> (x, z) }'
    ),
    "RemoveIdentities": lambda: model(
        f"g (int8[3,4] x) => (int8[3,4] y) {{ {QUANTIZED} {WEIGHTS}"
        " a = DequantizeLinear (x, one, zero) i = Identity (a) b = DequantizeLinear (w, one, zero)"
        " c = MatMul (i, b) y = QuantizeLinear (c, one, zero) }"
    ),
    "ReplaceQuantized": lambda: model(
        f"g (int8[3,4] x) => (int8[3,4] y) {{ {QUANTIZED} {WEIGHTS}"
        " a = DequantizeLinear (x, one, zero) b = DequantizeLinear (w, one, zero)"
        " c = MatMul (a, b) y = QuantizeLinear (c, one, zero) }"
    ),
    "FindNarrowWeights": lambda: model(
        "g (float[1,64] x) => (float[1,64] y) { one = Constant <value = float {0.5}> ()"
        " b = DequantizeLinear (w, one) y = MatMul (x, b) }",
        w=np.ones((64, 64), np.int8),
    ),
    "FoldQuantized": lambda: model(
        f"g (float[4,4] x) => (float[4,4] y) {{ {QUANTIZED} {WEIGHTS}"
        " b = DequantizeLinear (w, one, zero) y = Add (x, b) }"
    ),
    "RemoveNewIdentities": lambda: model(
        f"g (float[3,4] x) => (float[3,4] y) {{ {QUANTIZED} {WEIGHTS}"
        " b = DequantizeLinear (w, one, zero) y = Gemm <transB = 1> (x, b) }"
    ),
    "Canonicalize": lambda: model(
        "g (float[1,3,8,8] x) => (float[1,2,6,6] y) { six = Constant <value = float {6}> ()"
        " c = Conv (x, w) y = Min (c, six) }",
        w=CONV,
    ),
    "TransposeProducts": lambda: model(
        "g (float[32,1] x) => (float[32,1] y) { y = MatMul (w, x) }", w=np.ones((32, 32), np.float32)
    ),
    "ConvolveImages": lambda: model(
        "g (float[1,3,9] x) => (float[1,2,7] y) { y = Conv (x, w) }", w=np.ones((2, 3, 3), np.float32)
    ),
    "CompileLoopBodies": lambda: model(
        "g (float[4] x) => (float[4] y)"
        " { c = Constant <value = bool {1}> () m = Constant <value = int64 {9}> ()"
        " y = Loop (m, c, x) <body = b (int64 i, bool k, float[4] s) => (bool l, float[4] t)"
        " { t = Mul (s, s) u = ReduceSum <keepdims = 0> (t) v = Constant <value = float {9.0}> ()"
        " l = Less (u, v) }> }"
    ),
    "FormProducts": lambda: model("g (float[1,3,8,8] x) => (float[1,2,6,6] y) { y = Conv (x, w) }", w=CONV),
}


def outcome(passes: tuple[Pass, ...], witness: ModelProto) -> str:
    """What comes of a model, as text; where that is an error, what it says."""
    given = ModelProto()
    given.CopyFrom(witness)
    shape = given.graph.input[0].type.tensor_type
    shapes = {} if shape.HasField("shape") else {"x": [2, 4]}
    try:
        return "\n".join(ir_text(run(passes, Compilation(given, shapes))))
    except Exception as error:  # without a pass anything may be raised
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("left_out", [each.name for each in PIPELINE])
def test_no_pass_can_be_left_out(left_out: str) -> None:
    witness = WITNESSES[left_out]()
    rest = tuple(each for each in PIPELINE if each.name != left_out)
    assert outcome(rest, witness) != outcome(PIPELINE, witness)


class Verifier:
    """Verifies after each pass what it ensures, and what the passes before ensure for good."""

    def __init__(self) -> None:
        self._lasting: list[Pass] = []

    def __call__(self, each: Pass, compilation: Compilation) -> None:
        if each.name == PRODUCTS[0].name:
            self._lasting.clear()
        for condition in (*self._lasting, each):
            wrong = condition.ensures(compilation)
            assert not wrong, f"{condition.name} does not hold after {each.name}: {wrong}"
        if not each.once:
            self._lasting.append(each)


@pytest.mark.parametrize("name", [name for name in WITNESSES if name != "CheckStructure"])
def test_each_pass_ensures_what_it_says(name: str) -> None:
    witness = WITNESSES[name]()
    shapes = {} if witness.graph.input[0].type.tensor_type.HasField("shape") else {"x": [2, 4]}
    shapes = {"x": [2, 4]} if name == "FixInputShapes" else shapes
    run(PIPELINE, Compilation(witness, shapes), Verifier())


def test_all_passes_of_operators_ensure_what_they_say() -> None:
    """The onnx package's own models, a twentieth of them."""
    from bench.conformance_case import CASES

    built = 0
    for name in sorted(CASES)[::20]:
        given = ModelProto()
        given.CopyFrom(CASES[name].model)
        try:
            run(PIPELINE, Compilation(given), Verifier())
        except ModelError:
            continue
        built += 1
    assert built > 50


def test_a_build_shows_the_model_after_each_pass(tmp_path: Path) -> None:
    onnx.save(WITNESSES["FormProducts"](), str(tmp_path / "model.onnx"))
    (tmp_path / "log.jsonl").write_text("")
    command = [sys.executable, "-m", "tilefleet", "build", "model.onnx", "--log", "log.jsonl"]
    command += ["-o", "model.so", "--no-check", "--dump-ir", "ir"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    names = [path.name for path in sorted((tmp_path / "ir").iterdir())]
    assert names == [f"{at:02}-{each.name}.txt" for at, each in enumerate(PIPELINE, start=1)]
    assert (
        "y: float32[1, 2, 6, 6] = TilefleetProduct(x) {index = 0}"
        in (tmp_path / "ir" / names[-1]).read_text()
    )
    assert "y = Conv(x, w)" in (tmp_path / "ir" / names[0]).read_text()
