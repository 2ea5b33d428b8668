"""Results that no node makes: inputs that are given back, constants, and one tensor given twice."""

import numpy as np
import pytest
import tvm
from ai_edge_litert.interpreter import Interpreter
from every_form import check
from onnx import TensorProto, helper
from tiny_models import model, node
from tvm import relax

from bench.tflite_models import Maker
from compiler.intake.extract import extract
from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from worker.measure.host import host_target

pytestmark = [pytest.mark.usefixtures("avx2"), pytest.mark.timeout(300)]


def masked(dtype=TensorProto.FLOAT):
    """A product by a mask that is given back, with a table, and one result under two names and twice."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    table = np.arange(6, dtype=kind).reshape(2, 3)
    nodes = [
        node("Mul", ["x", "mask"], "a"),
        node("MatMul", ["a", "w"], "y"),
        node("Identity", ["y"], "again"),
    ]
    weights = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3).astype(kind)
    outputs = ["y", "mask", "table", "again", "y", "mask"]
    return model(nodes, {"x": (2, 3), "mask": (2, 3)}, outputs, {"w": weights, "table": table}, dtype=dtype)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16], ids=["float32", "float16"])
def test_every_form_gives_back_what_it_was_given(tmp_path, dtype):
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    rng = np.random.default_rng()
    check(tmp_path, masked(dtype), {name: rng.random((2, 3)).astype(kind) for name in ("x", "mask")})


def test_tflite_gives_back_inputs_and_constants(tmp_path):
    make = Maker()
    x, mask = make.input((2, 3)), make.input((2, 3), name="mask")
    table = make.constant(np.arange(6.0).reshape(2, 3))
    y = make.operator("MUL", [x, mask], (2, 3), fusedActivationFunction=0)
    data = make.file(y, mask, table, y)
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    rng = np.random.default_rng()
    feeds = {each.name: rng.random(each.shape, np.float32) for each in extract(path).inputs}
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], feeds[detail["name"]])
    interpreter.invoke()
    expected = [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]
    executable, _ = build_model(path, {}, host_target())
    found = run(relax.VirtualMachine(executable, tvm.cpu())["main"], feeds)
    for value, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, right)
