"""TFLite files that are damaged, hostile or not supported: a ModelError, in bounded time."""

import random
import time

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from bench.tflite_models import FUSED, SAME, Maker, branches
from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.readers.tflite.convert import to_onnx


def refused(make, *words, outputs=None):
    """The file of ``make`` is refused, with these words."""
    data = make if isinstance(make, bytes) else make.file(*(outputs or [len(make.graph.tensors) - 1]))
    with pytest.raises(ModelError) as error:
        to_onnx(data)
    for word in words:
        assert word in str(error.value)


def convolution(dtype="int8", **options):
    make = Maker(dtype)
    make.convolution(make.input((1, 6, 6, 4)), 8, name="c", **options)
    return make


def parts(make):
    """(operator, data, weights, bias, result) of ``convolution``."""
    return (make.graph.operators[0], *make.graph.tensors)


def test_content_tells_what_a_file_is(tmp_path):
    path = tmp_path / "model.onnx"
    data = convolution("float32").file(3)
    path.write_bytes(data)
    assert len(extract(path).operators) == 1
    path.write_bytes(data[:100])
    with pytest.raises(ModelError, match="damaged"):
        extract(path)


@pytest.mark.parametrize("seed", range(4))
def test_flipped_and_truncated(seed):
    """Whatever a damaged file says, it is a model or refused, and soon."""
    draw, whole = random.Random(seed), branches("int8" if seed % 2 else "float32")
    refusals, began = 0, time.monotonic()
    for _ in range(250):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 4, 20))):
            at = draw.randrange(8, len(data))
            data[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, data[at] ^ (1 << draw.randrange(8))))
        if draw.random() < 0.2:
            del data[draw.randrange(8, len(data)) :]
        try:
            to_onnx(bytes(data))
        except ModelError:
            refusals += 1
    assert refusals > 50
    assert time.monotonic() - began < 120


def find(data: bytes, *numbers: int) -> int:
    """Where these 32-bit numbers are in a file, once."""
    pattern = np.asarray(numbers, "<u4").tobytes()
    assert data.count(pattern) == 1
    return data.index(pattern)


@pytest.mark.parametrize("length", [2**15, 2**31 - 1, 2**32 - 1])
def test_lengths_beyond_the_file(length):
    """The vector of a shape, and one of tables."""
    data = bytearray(convolution().file(3))
    at = find(data, 4, 1, 6, 6, 4)
    data[at : at + 4] = length.to_bytes(4, "little")
    refused(bytes(data), "damaged")
    many = Maker("float32")
    many.graph.operators = [schema.OperatorT() for _ in range(123)]
    many.operator("RELU", [many.input((3, 3))], (3, 3))
    data = bytearray(many.file(1))
    at = data.index((124).to_bytes(4, "little"))
    data[at : at + 4] = length.to_bytes(4, "little")
    refused(bytes(data), f"{length} operators")


def test_parts_that_overlap():
    """Thousands of tensors whose one name is most of the file."""
    builder = flatbuffers.Builder(1024)
    name = builder.CreateString("n" * 5_000)
    schema.TensorStart(builder)
    schema.TensorAddName(builder, name)
    tensor = schema.TensorEnd(builder)
    schema.SubGraphStartTensorsVector(builder, 5000)
    for _ in range(5000):
        builder.PrependUOffsetTRelative(tensor)
    tensors = builder.EndVector()
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, tensors)
    graph = schema.SubGraphEnd(builder)
    schema.ModelStartSubgraphsVector(builder, 1)
    builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddSubgraphs(builder, graphs)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    refused(bytes(builder.Output()), "overlap")


def test_one_name_for_everything():
    make = Maker("float32")
    value = make.input((1, 2), name="n" * 100)
    for _ in range(1000):
        value = make.like("RESHAPE", value)
        make.graph.tensors[value].name = "n" * 100
    model = to_onnx(make.file(value))
    assert len({name for node in model.graph.node for name in node.output}) == 1000
    make.graph.tensors[value - 1].name = "n" * 20_000
    refused(make, "a name of 20000 bytes")


def test_too_many_operators(monkeypatch):
    monkeypatch.setattr("compiler.readers.tflite.file.MAX_NODES", 3)
    make = Maker("float32")
    value = make.input((2, 2))
    for _ in range(4):
        value = make.operator("RELU", [value], (2, 2))
    refused(make, "at most 3 are read")


def test_constants_that_add_up(monkeypatch):
    monkeypatch.setattr("compiler.readers.tflite.nodes.MAX_TENSOR_BYTES", 1000)
    refused(convolution("float32"), "constants take more than")


def test_unknown_operators_are_listed():
    make = Maker("float32")
    value = make.operator("UNIQUE", [make.input((2, 2))], (2, 2), name="down")
    make.operator("Flex", [value], (2, 2))
    refused(make, "not supported", "UNIQUE ('down')", "CUSTOM 'Flex' ('y')")


def test_nothing_to_compute():
    refused(convolution().file(), "no outputs")


def set_type(make, number, index=3):
    make.graph.tensors[index].type = number


def set_quantization(make, index, **fields):
    for name, value in fields.items():
        setattr(make.graph.tensors[index].quantization, name, value)


CHANGES = {
    "no such version": (lambda m: setattr(m.model, "version", 2), "version 2"),
    "no operators": (lambda m: m.graph.operators.clear(), "no operators"),
    "sparse weights": (
        lambda m: setattr(m.graph.tensors[1], "sparsity", schema.SparsityParametersT()),
        "sparse tensor 'tensor1'",
    ),
    "data elsewhere": (lambda m: setattr(m.model.buffers[1], "offset", 4096), "outside the FlatBuffer"),
    "no buffer": (lambda m: setattr(m.graph.tensors[1], "buffer", 9), "buffer 9 of 3"),
    "a type without quanta": (lambda m: set_type(m, schema.TensorType.UINT16), "CONV_2D 'y'", "uint16"),
    "weights of 4 bits": (lambda m: set_type(m, schema.TensorType.INT4, 1), "'tensor1'", "int4"),
    "an impossible shape": (lambda m: setattr(m.graph.tensors[0], "shape", [1, -6, 6, 4]), "impossible"),
    "a huge tensor": (lambda m: setattr(m.graph.tensors[0], "shape", [2**20] * 4), "GiB"),
    "too little data": (lambda m: setattr(m.graph.tensors[1], "shape", [9, 3, 3, 4]), "needs 324 bytes"),
    "another result": (lambda m: setattr(m.graph.tensors[3], "shape", [1, 6, 6, 9]), "[1, 6, 6, 8]"),
    "no scale": (lambda m: set_quantization(m, 0, scale=[]), "'x' of int8 has no scale"),
    "a scale of zero": (lambda m: set_quantization(m, 3, scale=[0.0]), "not a positive number"),
    "a scale that is no number": (lambda m: set_quantization(m, 0, scale=[np.nan]), "not a positive number"),
    "a zero point too large": (lambda m: set_quantization(m, 0, zeroPoint=[300]), "zero point"),
    "scales of activations": (
        lambda m: set_quantization(m, 0, scale=[1.0] * 4, zeroPoint=[0] * 4, quantizedDimension=3),
        "only weights may",
    ),
    "scales along another axis": (
        lambda m: set_quantization(m, 1, scale=[1.0] * 4, zeroPoint=[0] * 4, quantizedDimension=3),
        "along axis 3",
    ),
    "scales of another number": (lambda m: set_quantization(m, 1, scale=[1.0] * 5), "5 scales"),
    "no stride": (lambda m: setattr(m.graph.operators[0].builtinOptions, "strideH", 0), "strides [0, 1]"),
    "no such padding": (lambda m: setattr(m.graph.operators[0].builtinOptions, "padding", 7), "padding 7"),
    "another activation": (
        lambda m: setattr(m.graph.operators[0].builtinOptions, "fusedActivationFunction", FUSED.SIGN_BIT),
        "SIGN_BIT",
    ),
    "no options": (lambda m: setattr(m.graph.operators[0], "builtinOptions", None), "strides [0, 0]"),
    "other options": (
        lambda m: setattr(m.graph.operators[0], "builtinOptionsType", schema.BuiltinOptions.Pool2DOptions),
        "other options than Conv2DOptions",
    ),
    "no weights": (lambda m: setattr(m.graph.operators[0], "inputs", [0]), "input 1 is missing"),
    "computed weights": (lambda m: setattr(m.graph.operators[0], "inputs", [0, 0, 2]), "not constant"),
    "no such tensor": (lambda m: setattr(m.graph.operators[0], "inputs", [0, 1, 77]), "damaged"),
    "no such operator": (lambda m: setattr(m.graph.operators[0], "opcodeIndex", 5), "operator code 5"),
    "a constant that is written": (lambda m: setattr(m.graph.tensors[3], "buffer", 1), "a constant"),
    "an output that no one writes": (lambda m: m.graph.operators[0].inputs.__setitem__(0, 3), "before any"),
    "no bias like that": (lambda m: setattr(m.graph.tensors[2], "shape", [4, 2, 2]), "bytes"),
    "a bias of floats": (lambda m: set_type(m, schema.TensorType.FLOAT32, 2), "instead of int32"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_cannot_be(name):
    change, *words = CHANGES[name]
    make = convolution(padding=SAME)
    make.graph.tensors[3].name = "y"
    change(make)
    refused(make, *words, outputs=[3])
