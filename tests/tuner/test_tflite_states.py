"""TFLite operators with a state, and data of 16 bits, against LiteRT: built modules, run after run."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from tflite_compare import assert_same, built

from bench.tflite_models import FUSED, Maker
from compiler.ir.checks import ModelError
from compiler.readers.tflite.convert import to_onnx

STEPS, WIDTH, HIDDEN = 5, 7, 9


def variable(make, shape, name):
    index = make.tensor(shape, "float32", name=name)
    make.graph.tensors[index].isVariable = True
    return index


def values(make, *shape, spread=1.0):
    return make.tensor(shape, values=make.random.normal(0, spread, shape))


def lstm(clip=0.0, gates=4, peepholes=False, rows=2, spread=1.0, major=False):
    """One LSTM; without an input gate it has three."""
    make = Maker()
    first = [-1] * (4 - gates)
    shape = (STEPS, rows, WIDTH) if major else (rows, STEPS, WIDTH)
    data = make.input(shape)
    inputs = [data]
    for width in (WIDTH, HIDDEN):
        inputs += [*first, *(values(make, HIDDEN, width, spread=spread) for _ in range(gates))]
    peeps = [*first, *(values(make, HIDDEN) for _ in range(gates - 1))] if peepholes else [-1] * 3
    inputs += [*peeps, *first, *(values(make, HIDDEN) for _ in range(gates)), -1, -1]
    inputs += [variable(make, (rows, HIDDEN), "h"), variable(make, (rows, HIDDEN), "c"), *[-1] * 4]
    result = make.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (*shape[:2], HIDDEN),
        fusedActivationFunction=FUSED.TANH, cellClip=clip, timeMajor=major,
    )  # fmt: skip
    return make.file(result)


def svdf(rank, bias):
    make = Maker()
    data, memory, units = make.input((2, WIDTH)), 4, 6
    inputs = [data, values(make, units * rank, WIDTH), values(make, units * rank, memory)]
    inputs += [values(make, units) if bias else -1, variable(make, (2, units * rank * memory), "s")]
    kinds = {"rank": rank, "fusedActivationFunction": FUSED.RELU if bias else FUSED.NONE}
    return make.file(make.operator("SVDF", inputs, (2, units), **kinds))


FILES = {
    "plain": lambda: lstm(),
    "clipped": lambda: lstm(clip=0.7, spread=3.0),
    "coupled": lambda: lstm(gates=3, major=True),
    "peepholes": lambda: lstm(clip=10.0, peepholes=True),
    "svdf": lambda: svdf(2, True),
    "svdf of one": lambda: svdf(1, False),
}


@pytest.mark.parametrize("name", FILES)
def test_states_go_from_run_to_run(name):
    data = FILES[name]()
    model = to_onnx(data)
    run = built(model)
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    (detail,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    states = {
        value.name: np.zeros([d.dim_value for d in value.type.tensor_type.shape.dim], np.float32)
        for value in model.graph.input[1:]
    }
    assert states
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=detail["shape"]).astype(np.float32)
        interpreter.set_tensor(detail["index"], x)
        interpreter.invoke()
        found = run({"x": x, **states})
        states = {name: found[f"{name}/next"] for name in states}
        np.testing.assert_allclose(found["y"], interpreter.get_tensor(result["index"]), atol=2e-5)


def test_what_is_not_read():
    make = Maker()
    data = make.input((1, STEPS, WIDTH))
    with pytest.raises(ModelError, match="no variables"):
        to_onnx(make.file(make.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", [data], (1, STEPS, HIDDEN))))


def test_data_of_16_bits():
    """Weights have 8 bits, as in what the converter calls 16x8."""
    make = Maker()
    scale = np.float32(3 / 32767)

    def image(shape, name=None):
        return make.tensor(shape, "int16", scales=scale, zero=0, name=name)

    data = image((1, 6, 5, 3), "x")
    make.graph.inputs.append(data)
    scales = np.array([0.01, 0.02, 0.004, 0.03], np.float32)
    weights = make.tensor(
        (4, 3, 3, 3), "int8", values=make.random.integers(-127, 128, (4, 3, 3, 3)), scales=scales
    )
    bias = make.tensor((4,), "int64", values=make.random.integers(-9000, 9000, 4), scales=scales * scale)
    value = make.operator(
        "CONV_2D", [data, weights, bias], (1, 6, 5, 4), result=image((1, 6, 5, 4)),
        strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=FUSED.RELU,
    )  # fmt: skip
    total = make.operator("ADD", [value, value], (1, 6, 5, 4), result=image((1, 6, 5, 4)))
    part = make.like("SLICE", total, (1, 3, 5, 4), [make.numbers(0, 2, 0, 0), make.numbers(1, 3, 5, 4)])
    assert_same(make.file(part), quanta=2)
