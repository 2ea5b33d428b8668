"""TFLite files of several graphs: variables as inputs and outputs, branches, against LiteRT."""

import numpy as np
import onnxruntime
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from flatbuffers import flexbuffers
from tflite_compare import assert_same

from bench.tflite_models import Maker
from compiler.ir.checks import ModelError
from compiler.load import read_model
from compiler.readers.tflite.convert import to_onnx


def streaming(dtype):
    """A window of four steps that keeps three of them, with what has been added up."""
    make = Maker(dtype)
    zeros = np.zeros((1, 3, 5))
    with make.subgraph() as first:
        handle = make.operator("VAR_HANDLE", [], (), dtype="resource", container="", sharedName="past")
        make.assign(handle, make.constant(zeros))
    once = make.operator("CALL_ONCE", [], (), initSubgraphIndex=first)
    make.graph.operators[-1].outputs = []
    assert once is not None
    step = make.input((1, 1, 5))
    handle = make.operator("VAR_HANDLE", [], (), dtype="resource", container="", sharedName="past")
    past = make.like("READ_VARIABLE", step, (1, 3, 5))
    make.graph.operators[-1].inputs = [handle]
    window = make.like("CONCATENATION", step, (1, 4, 5), axis=1)
    make.graph.operators[-1].inputs = [past, step]
    ends = [make.numbers(0, 1, 0), make.numbers(1, 4, 5), make.numbers(1, 1, 1)]
    make.assign(handle, make.like("STRIDED_SLICE", window, (1, 3, 5), ends))
    flat = make.like("RESHAPE", window, (1, 20), [make.numbers(1, 20)], newShape=[1, 20])
    return make.file(make.dense(flat, 6))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_state_goes_in_and_comes_out(dtype):
    data = streaming(dtype)
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    (given,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    session = onnxruntime.InferenceSession(to_onnx(data).SerializeToString())
    assert [value.name for value in session.get_inputs()] == ["x", "past"]
    assert [value.name for value in session.get_outputs()] == ["y", "past/next"]
    rng = np.random.default_rng()
    zero = given["quantization"][1]
    past = np.full((1, 3, 5), zero, given["dtype"])
    for _ in range(6):
        x = rng.normal(size=(1, 1, 5))
        x = (x * 40).clip(-128, 127).astype("int8") if dtype == "int8" else x.astype("float32")
        interpreter.set_tensor(given["index"], x)
        interpreter.invoke()
        expected = interpreter.get_tensor(result["index"])
        y, past = session.run(None, {"x": x, "past": past})
        np.testing.assert_allclose(np.float32(y), np.float32(expected), atol=1 if dtype == "int8" else 1e-5)


def test_composites_are_what_they_stand_for():
    """As converters from PyTorch write them: a name, and a graph of other operators."""
    make = Maker()
    with make.subgraph() as inner:
        first, second = (make.input((2, 5), name=name) for name in "ab")
        total = make.operator("ADD", [first, second], (2, 5))
        make.graph.outputs = [make.operator("MUL", [total, second], (2, 5)), total]
    x = make.input((2, 5))
    square = make.operator("SQUARE", [x], (2, 5))
    rest = make.tensor((2, 5))
    made = make.operator("STABLEHLO_COMPOSITE", [x, square], (2, 5), more=[rest])
    operator, options = make.graph.operators[-1], schema.StableHLOCompositeOptionsT()
    options.name, options.decompositionSubgraphIndex, options.version = b"odml.test", inner, 1
    options.compositeAttributes = np.frombuffer(flexbuffers.Dumps({}), np.uint8)
    operator.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
    operator.builtinOptions2 = options
    assert_same(make.file(made, make.operator("SUB", [made, rest], (2, 5))))


def chosen(broken=""):
    """A sum that is above zero or not decides between a product, by given weights, and what was given."""
    make = Maker()
    data = make.input((2, 6))
    with make.subgraph() as then:
        inside, weights = make.input((2, 6)), make.input((6, 6), name="w")
        product = make.operator("FULLY_CONNECTED", [make.dense(inside, 6), weights, -1], (2, 6))
        make.graph.outputs = [make.operator("NEG", [product], (2, 6))]
    with make.subgraph() as otherwise:
        inside, _ = make.input((2, 6)), make.input((6, 6), name="w")
        make.graph.outputs = [inside]
    if broken == "endless":
        otherwise = 0
    total = make.operator("SUM", [data, make.numbers(0, 1)], (), keepDims=False)
    above = make.operator("GREATER", [total, make.tensor((), values=np.float32(0))], (), dtype="bool")
    numbers = {"thenSubgraphIndex": then, "elseSubgraphIndex": 9 if broken == "missing" else otherwise}
    weights = make.tensor((6, 6), values=np.random.default_rng(5).normal(size=(6, 6)).astype("float32"))
    return make.file(make.operator("IF", [above, data, weights], (2, 6), **numbers))


def test_data_chooses_between_branches():
    data = chosen()
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    session = onnxruntime.InferenceSession(to_onnx(data).SerializeToString())
    x = np.abs(np.random.default_rng().normal(size=(2, 6)).astype("float32"))
    for value in (x, -x):
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], value)
        interpreter.invoke()
        expected = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_allclose(session.run(None, {"x": value})[0], expected, atol=1e-5)


@pytest.mark.parametrize("broken", ["endless", "missing"])
def test_branches_that_are_none_are_refused(broken):
    with pytest.raises(ModelError, match="no subgraph"):
        to_onnx(chosen(broken))


def counting(turns, by=1):
    """A dense layer of a state and a row of the input, as often as a counter says."""
    make = Maker()
    data = make.input((4, 6))

    def number(value):
        return make.tensor((), "int32", values=np.int32(value))

    def state():
        return make.tensor((), "int32"), make.tensor((1, 6)), make.tensor((4, 6))

    with make.subgraph() as condition:
        count, value, rows = state()
        make.graph.inputs = [count, value, rows]
        make.graph.outputs = [make.operator("LESS", [count, number(turns)], (), dtype="bool")]
    with make.subgraph() as body:
        count, value, rows = state()
        make.graph.inputs = [count, value, rows]
        row = make.operator("GATHER", [rows, count], (6,), axis=0)
        flat = make.operator("RESHAPE", [row, make.numbers(1, 6)], (1, 6))
        new = make.operator("ADD", [make.dense(value, 6), flat], (1, 6))
        more = make.operator("ADD", [count, number(by)], (), dtype="int32")
        make.graph.outputs = [more, new, rows]
    numbers = {"condSubgraphIndex": condition, "bodySubgraphIndex": body}
    first = make.constant(np.ones((1, 6)))
    last = make.operator("WHILE", [number(0), first, data], (), dtype="int32", **numbers)
    results = [last, make.tensor((1, 6)), make.tensor((4, 6))]
    make.graph.operators[-1].outputs = results
    return make.file(make.operator("NEG", [results[1]], (1, 6)))


def test_a_loop_runs_as_often_as_its_counter_says(tmp_path):
    path, data = tmp_path / "loop.tflite", counting(4)
    path.write_bytes(data)
    read = read_model(path)
    assert sum(each.op_type in ("MatMul", "Gemm") for each in read.graph.node) == 4
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    x = np.random.default_rng().normal(size=(4, 6)).astype("float32")
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    expected = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    result = onnxruntime.InferenceSession(read.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_a_loop_without_end_is_refused(tmp_path):
    path = tmp_path / "loop.tflite"
    path.write_bytes(counting(4, by=0))
    with pytest.raises(ModelError, match=r"\(Loop\) has more than"):
        read_model(path)
