"""Every TFLite operator that is imported, of floats and quantized, against LiteRT."""

import numpy as np
import pytest
from tflite_compare import assert_same, by_us, inputs_of, operators

from bench.tflite_models import FUSED, SAME, VALID, Maker
from compiler.load import load_partition
from compiler.readers.tflite.convert import to_onnx
from kernels.workload.base import Gemm
from kernels.workload.narrow import NarrowGemm

DTYPES = ("float32", "int8", "uint8")


@pytest.fixture(params=DTYPES)
def make(request):
    return Maker(request.param)


CONVOLUTIONS = {
    "pointwise": ((1, 7, 5, 8), {"filters": 12, "kernel": (1, 1)}),
    "same": ((2, 7, 6, 5), {"filters": 8, "kernel": (3, 3)}),
    "valid": ((1, 9, 8, 3), {"filters": 4, "kernel": (3, 2), "padding": VALID}),
    "stride": ((1, 9, 8, 3), {"filters": 4, "kernel": (5, 5), "stride": 2, "fused": FUSED.RELU6}),
    "stride skips": ((1, 8, 9, 3), {"filters": 4, "kernel": (1, 1), "stride": 3, "fused": FUSED.RELU}),
    "dilated": ((1, 11, 12, 4), {"filters": 6, "kernel": (3, 3), "dilation": 2, "fused": FUSED.RELU_N1_TO_1}),
    "grouped": ((1, 6, 6, 8), {"filters": 12, "kernel": (3, 3), "groups": 4}),
    "depthwise": ((1, 8, 7, 6), {"filters": 0, "kernel": (3, 3), "depth": 1, "fused": FUSED.RELU6}),
    "depthwise stride": (
        (1, 9, 9, 6),
        {"filters": 0, "kernel": (5, 5), "depth": 1, "stride": 2, "padding": VALID},
    ),
    "depthwise multiplier": ((1, 8, 7, 3), {"filters": 0, "kernel": (3, 3), "depth": 4}),
    "one channel": ((1, 8, 7, 1), {"filters": 4, "kernel": (3, 3)}),
}


@pytest.mark.parametrize("layer", CONVOLUTIONS)
def test_convolution(make, layer):
    shape, options = CONVOLUTIONS[layer]
    assert_same(make.file(make.convolution(make.input(shape), **options)))


def test_convolution_with_one_scale_for_all_filters():
    make = Maker("int8", per_channel=False)
    assert_same(make.file(make.convolution(make.input((1, 6, 6, 4)), 8, fused=FUSED.RELU)))


@pytest.mark.parametrize("padding", [SAME, VALID])
def test_border_becomes_the_convolutions_own(make, padding):
    padded = make.pad(make.input((1, 7, 6, 4)), 2, 1, 0, 3)
    model = assert_same(make.file(make.convolution(padded, 4, (3, 3), 2, padding)))
    assert ("Pad" in operators(model)) == (padding == SAME)


def test_border_that_another_reads_as_well(make):
    padded = make.pad(make.input((1, 7, 6, 4)), 1, 1, 1, 1)
    first = make.convolution(padded, 4, padding=VALID)
    second = make.pool("MAX", padded, 2, 2)
    assert operators(assert_same(make.file(first, second))).count("Pad") == 1


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((3, 20), {}),
        ((1, 32), {"fused": FUSED.RELU}),
        ((1, 1, 1, 24), {"fused": FUSED.RELU6}),
        ((2, 3, 4, 5), {"bias": False}),
        ((2, 3, 8), {"keep": True}),
        ((1, 2, 3, 8), {"keep": True}),
    ],
)
def test_fully_connected(make, shape, options):
    assert_same(make.file(make.dense(make.input(shape), 10, **options)))


BROADCASTS = [
    ((1, 5, 6, 4), (1, 5, 6, 4)),
    ((2, 5, 6, 4), (2, 1, 1, 4)),
    ((1, 5, 6, 4), (4,)),
    ((6, 4), (1, 5, 6, 4)),
    ((3, 7), (3, 7)),
    ((2, 3, 7), (7,)),
    ((2, 1, 3, 3, 3), (2, 3, 3, 3)),
]


@pytest.mark.parametrize("fused", [FUSED.NONE, FUSED.RELU])
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize(("first", "second"), BROADCASTS)
def test_binary(make, kind, first, second, fused):
    shape = np.broadcast_shapes(first, second)
    limits = (0.0, 4.0) if fused else (-6.0, 6.0)
    operands = [make.input(first), make.input(second, limits=(-2.0, 1.0), name="z")]
    assert_same(make.file(make.operator(kind, operands, shape, limits, fusedActivationFunction=fused)))


@pytest.mark.parametrize("shape", [(1, 5, 6, 4), (4,), (1,), ()])
def test_binary_with_a_constant(make, shape):
    data = make.input((1, 5, 6, 4))
    addend = make.constant(np.asarray(make.random.normal(size=shape)))
    assert_same(make.file(make.operator("ADD", [data, addend], make.shape(data), (-5.0, 5.0))))


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "fused"),
    [(2, 2, VALID, 0), (3, 2, SAME, 0), (3, 1, SAME, FUSED.RELU), (3, 3, VALID, 0), (1, 2, SAME, 0)],
)
@pytest.mark.parametrize("kind", ["AVERAGE", "MAX"])
def test_pool(make, kind, kernel, stride, padding, fused):
    assert_same(make.file(make.pool(kind, make.input((2, 9, 8, 5)), kernel, stride, padding, fused)))


@pytest.mark.parametrize(
    ("shape", "axes", "keep"),
    [
        ((2, 7, 6, 5), (1, 2), True),
        ((2, 7, 6, 5), (-2, -3), False),
        ((2, 7, 6, 5), (2,), True),
        ((2, 7, 6, 5), (3,), False),
        ((3, 8, 5), (1,), False),
    ],
)
def test_mean(make, shape, axes, keep):
    positive = [axis % len(shape) for axis in axes]
    kept = [1 if axis in positive else extent for axis, extent in enumerate(shape)]
    left = [extent for axis, extent in enumerate(shape) if axis not in positive]
    data = make.input(shape)
    value = make.operator("MEAN", [data, make.numbers(*axes)], kept if keep else left, (-2, 2), keepDims=keep)
    model = assert_same(make.file(value))
    assert ("GlobalAveragePool" in operators(model)) == (sorted(positive) == [1, 2])


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("shape", [(3, 10), (1, 3, 4, 10), (2, 3, 10)])
def test_softmax(make, shape, beta):
    assert_same(make.file(make.softmax(make.input(shape), beta)))


UNARY_RANGES = {
    "RELU": (0.0, 2.0),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "TANH": (-1.0, 127 / 128),
    "LOGISTIC": (0.0, 255 / 256),
    "HARD_SWISH": (-0.5, 3.0),
}


@pytest.mark.parametrize("shape", [(1, 5, 4, 3), (2, 30)])
@pytest.mark.parametrize("kind", UNARY_RANGES)
def test_unary(make, kind, shape):
    data = make.input(shape, limits=(-4.0, 4.0))
    assert_same(make.file(make.operator(kind, [data], shape, UNARY_RANGES[kind])))


@pytest.mark.parametrize("axis", [3, 1, -2])
def test_concatenation(make, axis):
    shape, widths = [1, 4, 3, 5], (5, 2, 1)
    parts = []
    for position, width in enumerate(widths):
        shape[axis] = width
        parts.append(make.input(shape, name=f"x{position}"))
    shape[axis] = sum(widths)
    assert_same(make.file(make.operator("CONCATENATION", parts, shape, axis=axis)))


@pytest.mark.parametrize(
    ("shape", "result", "turns"),
    [
        ((1, 4, 3, 5), (1, 60), 2),
        ((1, 4, 3, 5), (4, 15), 2),
        ((1, 1, 1, 20), (1, 20), 0),
        ((1, 4, 5, 1), (1, 20), 0),
        ((1, 4, 3, 5), (1, 3, 10, 2), 4),
        ((1, 4, 3, 5), (1, 60, 1, 1), 2),
    ],
)
def test_reshape(make, shape, result, turns):
    """The pools before and after it work in NCHW: data is turned only where that is another order."""
    value = make.pool("MAX", make.input(shape), 1, 1)
    value = make.like("RESHAPE", value, result, [make.numbers(*result)])
    if len(result) == 4:
        value = make.pool("MAX", value, 1, 1)
    model = assert_same(make.file(value))
    assert operators(model).count("Transpose") == turns


def test_squeeze(make):
    value = make.pool("MAX", make.input((1, 4, 1, 5)), 1, 1)
    assert_same(make.file(make.like("SQUEEZE", value, (4, 5), squeezeDims=[0, 2])))


@pytest.mark.parametrize("perm", [(0, 3, 1, 2), (0, 2, 1, 3), (3, 2, 1, 0)])
def test_transpose(make, perm):
    value = make.convolution(make.input((1, 4, 3, 5)), 6)
    shape = [make.shape(value)[axis] for axis in perm]
    assert_same(make.file(make.like("TRANSPOSE", value, shape, [make.numbers(*perm)])))


def test_pad(make):
    data = make.input((2, 3, 4))
    value = make.like("PAD", data, (2, 6, 5), [make.numbers((0, 0), (1, 2), (0, 1))])
    assert_same(make.file(value, make.pad(make.input((1, 3, 3, 2), name="z"), 1, 0, 2, 1)))


def test_quantize_and_dequantize():
    make = Maker("int8")
    value = make.operator("QUANTIZE", [make.input((1, 5, 5, 3), "float32")], (1, 5, 5, 3))
    value = make.convolution(value, 4)
    other = make.operator("QUANTIZE", [value], make.shape(value), (-2.0, 2.5), "uint8")
    assert_same(make.file(make.operator("DEQUANTIZE", [value], make.shape(value), dtype="float32"), other))


def test_weights_of_16_bits():
    """As the converter writes them: constants of float16, made wider by operators of the graph."""
    make = Maker("float32")
    data = make.input((1, 6, 6, 3))
    value = make.convolution(data, 4)
    make.graph.operators.pop()
    wide = []
    for index in (value - 2, value - 1):
        shape = make.shape(index)
        values = make.random.normal(size=shape)
        narrow = make.tensor(shape, "float16", values=values)
        wide.append(make.operator("DEQUANTIZE", [narrow], shape, dtype="float32"))
    options = {"padding": SAME, "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    model = assert_same(make.file(make.operator("CONV_2D", [data, *wide], make.shape(value), **options)))
    assert operators(model) == ["Transpose", "Conv", "Transpose"]


@pytest.mark.parametrize("scales", [1, 48])
@pytest.mark.parametrize(("rows", "kind"), [(1, NarrowGemm), (40, Gemm)])
def test_matrices_of_8_bits_by_floats_stay_so_for_few_rows(tmp_path, rows, kind, scales):
    """As dynamic ranges leave them; what is computed is the product by the real numbers of the weights."""
    make = Maker("float32")
    steps = make.random.uniform(0.01, 0.02, scales).astype(np.float32)
    quanta = make.random.integers(-127, 128, (48, 64))
    data = make.input((rows, 64))
    weights = make.tensor((48, 64), "int8", values=quanta, scales=steps)
    bias = make.tensor((48,), values=make.random.normal(size=48))
    path = tmp_path / "model.tflite"
    file = make.file(make.operator("FULLY_CONNECTED", [data, weights, bias], (rows, 48)))
    path.write_bytes(file)
    (product,) = load_partition(path).products
    assert isinstance(product.workload, kind)
    feed = inputs_of(file)
    (x,) = feed.values()
    expected = x @ (quanta * steps[:, None]).T.astype(np.float32) + product.bias
    (found,) = by_us(to_onnx(file), feed).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
