"""TFLite operators beside products and pools, of floats and quantized, against LiteRT."""

from itertools import product

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from tflite_compare import assert_same, by_litert

from bench.tflite_models import SAME, VALID, Maker
from compiler.lower.operators.resize_taps import Line, taps_of
from compiler.readers.tflite import nearest

IMAGE = (1, 5, 6, 4)


@pytest.fixture(params=("float32", "int8"))
def make(request):
    return Maker(request.param)


UNARY = {
    "ABS": (0.0, 4.0), "ELU": (-1.0, 4.0), "EXP": (0.0, 8.0), "FLOOR": None, "CEIL": None, "ROUND": None,
    "NEG": None, "SQUARE": None, "SIN": None, "COS": None, "GELU": (-0.5, 4.0), "SIGN": None,
}  # fmt: skip


@pytest.mark.parametrize("shape", [IMAGE, (2, 30)])
@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind, shape):
    for dtype in ("float32", "int8") if UNARY[kind] else ("float32",):
        make = Maker(dtype)
        data = make.input(shape, limits=(-4.0, 2.0))
        assert_same(make.file(make.operator(kind, [data], shape, UNARY[kind] or (-1.0, 1.0))))


@pytest.mark.parametrize("kind", ["SQRT", "RSQRT", "LOG"])
def test_unary_of_what_is_above_nothing(kind):
    make = Maker()
    data = make.operator("EXP", [make.input(IMAGE)], IMAGE)
    assert_same(make.file(make.operator(kind, [data], IMAGE)))


def test_functions_with_a_number(make):
    data = make.input(IMAGE, limits=(-4.0, 2.0))
    assert_same(make.file(make.operator("LEAKY_RELU", [data], IMAGE, (-1.2, 2.0), alpha=0.3)))
    other = Maker()
    assert_same(other.file(other.operator("GELU", [other.input((3, 50))], (3, 50), approximate=True)))


@pytest.mark.parametrize("second", [IMAGE, (4,), (1, 1, 1, 4)])
@pytest.mark.parametrize("kind", ["MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"])
def test_binary(make, kind, second):
    limits = (0.0, 25.0) if kind == "SQUARED_DIFFERENCE" else (-3.0, 3.0)
    operands = [make.input(IMAGE), make.input(second, name="z")]
    if make.dtype != "float32" and kind != "SQUARED_DIFFERENCE":
        assert_same(make.file(make.like(kind, operands[0], IMAGE, operands[1:])))
    else:
        assert_same(make.file(make.operator(kind, operands, IMAGE, limits)))


def test_quotients_and_powers():
    make = Maker()
    data = make.input(IMAGE)
    below = make.operator("EXP", [make.input((4,), name="z")], (4,))
    value = make.operator("DIV", [data, below], IMAGE)
    floors = make.operator("FLOOR_DIV", [data, below], IMAGE)
    powers = make.operator("POW", [make.operator("EXP", [data], IMAGE), below], IMAGE)
    assert_same(make.file(value, floors, powers))


@pytest.mark.parametrize("alpha", [(1, 1, 4), (4,), (1, 1, 1)])
def test_prelu(make, alpha):
    slopes = make.constant(np.asarray(make.random.normal(size=alpha)) / 2)
    assert_same(make.file(make.operator("PRELU", [make.input(IMAGE), slopes], IMAGE, (-4.0, 3.0))))


def test_comparisons_and_choices():
    make = Maker()
    data, other = make.input(IMAGE), make.input((4,), name="z")
    truths = [
        make.operator(kind, [data, other], IMAGE, dtype="bool")
        for kind in ("LESS", "GREATER_EQUAL", "NOT_EQUAL")
    ]
    both = make.operator("LOGICAL_AND", truths[1:], IMAGE, dtype="bool")
    neither = make.operator("LOGICAL_NOT", [both], IMAGE, dtype="bool")
    chosen = make.operator("SELECT_V2", [truths[0], data, other], IMAGE)
    counted = make.operator("CAST", [neither], IMAGE, dtype="float32")
    assert_same(make.file(chosen, counted))


RESIZES = [
    {"halfPixelCenters": half, "alignCorners": align} for half, align in product((False, True), repeat=2)
]


@pytest.mark.parametrize("flags", RESIZES)
@pytest.mark.parametrize("size", [(10, 12), (7, 3), (15, 6)])
def test_bilinear_resize(make, size, flags):
    """Of both flags LiteRT's fast kernels take align_corners alone; the plain ones refuse them together."""
    data = make.input((2, 5, 6, 3))
    assert_same(make.file(make.like("RESIZE_BILINEAR", data, (2, *size, 3), [make.numbers(*size)], **flags)))


@pytest.mark.parametrize("flags", RESIZES)
@pytest.mark.parametrize("before", [(5, 6), (20, 14)])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_nearest_resize(dtype, before, flags):
    """Also of sizes at which places are ties."""
    for size in ((10, 12), (7, 3), (15, 6), (6, 23), (1, 1), (40, 28)):
        make = Maker(dtype)
        data, sizes = make.input((2, *before, 3)), [make.numbers(*size)]
        assert_same(make.file(make.like("RESIZE_NEAREST_NEIGHBOR", data, (2, *size, 3), sizes, **flags)))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("half", [False, True])
def test_nearest_places_are_those_of_litert_for_all_small_sizes(align, half):
    way = b"align_corners" if align else b"half_pixel" if half else b"asymmetric"
    attributes = {"coordinate_transformation_mode": way}
    attributes["nearest_mode"] = b"round_prefer_ceil" if align or half else b"floor"
    resized = 0
    for before, after in product(range(1, 22), range(1, 31)):
        make = Maker()
        numbers, options = [make.numbers(after, 1)], {"alignCorners": align, "halfPixelCenters": half}
        line = make.input((1, before, 1, 1))
        data = make.file(make.like("RESIZE_NEAREST_NEIGHBOR", line, (1, after, 1, 1), numbers, **options))
        (wanted,) = by_litert(data, {"x": np.arange(before, dtype=np.float32).reshape(1, -1, 1, 1)}).values()
        places = nearest.taken(before, after, align, half)
        assert np.array_equal(wanted.reshape(-1), places), (before, after)
        if nearest.is_resize(before, after, align, half):
            resized += 1
            taps = taps_of(Line(before, after, after / before, (0, 1)), 0, attributes)
            assert np.array_equal(taps.indices[:, 0], places), (before, after)
    assert resized == 0 if align and half else resized > 60


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "out"),
    [((2, 2), 2, SAME, (10, 12)), ((3, 3), 2, SAME, (10, 12)), ((3, 3), 2, SAME, (9, 11)),
     ((4, 3), 2, VALID, (12, 13)), ((3, 2), 1, SAME, (5, 6)), ((2, 2), 3, VALID, (14, 17))],
)  # fmt: skip
def test_transposed_convolution(kernel, stride, padding, out, bias):
    make = Maker()
    data = make.input((1, 5, 6, 4))
    weights, addend = make.weights((7, *kernel, 4), 16, 0, data)
    inputs = [make.numbers(1, *out, 7), weights, data, *([addend] if bias else [])]
    options = {"padding": padding, "strideH": stride, "strideW": stride}
    assert_same(make.file(make.operator("TRANSPOSE_CONV", inputs, (1, *out, 7), **options)))


def test_mediapipes_transposed_convolution():
    make = Maker()
    data = make.input((1, 5, 6, 4))
    weights, bias = make.weights((7, 2, 2, 4), 16, 0, data)
    value = make.operator("Convolution2DTransposeBias", [data, weights, bias], (1, 10, 12, 7))
    make.graph.operators[-1].customOptions = np.array([1, 2, 2], "<i4").view(np.uint8)
    assert_same(make.file(value))


@pytest.mark.parametrize(
    ("kind", "out"), [("DEPTH_TO_SPACE", (1, 8, 12, 2)), ("SPACE_TO_DEPTH", (1, 2, 3, 32))]
)
def test_blocks_of_pixels(make, kind, out):
    assert_same(make.file(make.like(kind, make.input((1, 4, 6, 8)), out, blockSize=2)))


SLICES = {
    "some": ((0, 1, 2, 1), (1, 4, 6, 3), (1, 1, 2, 1), {}, (1, 3, 2, 2)),
    "masks": ((0, 1, 2, 1), (0, 0, 0, 0), (1, 1, 1, 1), {"beginMask": 4, "endMask": 15}, (1, 4, 6, 3)),
    "back": ((0, -1, 0, 0), (1, -4, 6, 4), (1, -1, 1, 1), {}, (1, 3, 6, 4)),
    "to the front": ((0, 4, 0, 0), (1, 0, 6, 4), (1, -2, 1, 1), {"endMask": 2}, (1, 3, 6, 4)),
    "dropped": ((0, 2, 0, 0), (1, 3, 6, 4), (1, 1, 1, 1), {"shrinkAxisMask": 3}, (6, 4)),
    "short": ((0, 2), (1, 4), (1, 1), {}, (1, 2, 6, 4)),
}


@pytest.mark.parametrize("name", SLICES)
def test_strided_slice(make, name):
    begin, end, step, masks, shape = SLICES[name]
    limits = [make.numbers(*begin), make.numbers(*end), make.numbers(*step)]
    assert_same(make.file(make.like("STRIDED_SLICE", make.input(IMAGE), shape, limits, **masks)))


def test_slice(make):
    more = [make.numbers(0, 1, 2, 1), make.numbers(1, -1, 3, 2)]
    assert_same(make.file(make.like("SLICE", make.input(IMAGE), (1, 4, 3, 2), more)))


def test_parts(make):
    data = make.input(IMAGE)
    halves = [make.copy(data, (1, 5, 3, 4)) for _ in range(2)]
    axis = make.tensor((), "int32", values=np.asarray(2))
    make.operator("SPLIT", [axis, data], IMAGE, result=halves[0], more=halves[1:], numSplits=2)
    rows = [make.copy(data, (1, 3, 4)) for _ in range(5)]
    make.operator("UNPACK", [halves[0]], IMAGE, result=rows[0], more=rows[1:], axis=1, num=5)
    packed = make.like("PACK", rows[3], (1, 3, 2, 4), rows[:1], axis=2, valuesCount=2)
    assert_same(make.file(packed, halves[1]))


@pytest.mark.parametrize("axis", [1, 3])
def test_gather(make, axis):
    shape = [*IMAGE]
    shape[axis] = 3
    assert_same(make.file(make.like("GATHER", make.input(IMAGE), shape, [make.numbers(2, 0, 3)], axis=axis)))


def test_borders_and_copies():
    make = Maker()
    data = make.input(IMAGE)
    widths = make.numbers((0, 0), (1, 2), (0, 3), (0, 0))
    value = make.tensor((), "float32", values=np.asarray(1.5))
    filled = make.operator("PADV2", [data, widths, value], (1, 8, 9, 4))
    mirrored = make.operator("MIRROR_PAD", [data, widths], (1, 8, 9, 4), mode=schema.MirrorPadMode.REFLECT)
    tiled = make.operator("TILE", [data, make.numbers(1, 2, 1, 3)], (1, 10, 6, 12))
    turned = make.operator("REVERSE_V2", [data, make.numbers(2)], IMAGE)
    assert_same(make.file(filled, mirrored, tiled, turned))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(("shape", "axes"), [(IMAGE, (1, 2)), (IMAGE, (3,)), ((3, 7), (-1,))])
@pytest.mark.parametrize("kind", ["SUM", "REDUCE_MAX", "REDUCE_MIN"])
def test_reductions(make, kind, shape, axes, keep):
    left = [1 if axis in axes or axis - len(shape) in axes else n for axis, n in enumerate(shape)]
    out = (
        left
        if keep
        else [n for axis, n in enumerate(shape) if axis not in axes and axis - len(shape) not in axes]
    )
    data, numbers = make.input(shape), [make.numbers(*axes)]
    if kind == "SUM":
        value = make.operator(kind, [data, *numbers], out, (-30.0, 30.0), keepDims=keep)
    else:
        value = make.like(kind, data, out, numbers, keepDims=keep)
    assert_same(make.file(value))


def test_places_and_norms():
    make = Maker()
    data = make.input(IMAGE)
    first = make.operator(
        "ARG_MAX", [data, make.numbers(3)], IMAGE[:3], dtype="int32", outputType=schema.TensorType.INT32
    )
    last = make.operator(
        "ARG_MIN", [data, make.numbers(1)], (1, 6, 4), dtype="int64", outputType=schema.TensorType.INT64
    )
    places = [make.operator("CAST", [each], make.shape(each), dtype="float32") for each in (first, last)]
    norm = make.operator("L2_NORMALIZATION", [data], IMAGE)
    flat = make.input((3, 10), name="z")
    logs = make.operator("LOG_SOFTMAX", [flat], (3, 10))
    sums = make.operator("CUMSUM", [flat, make.numbers(1)], (3, 10), exclusive=True)
    assert_same(make.file(*places, norm, logs, sums))


@pytest.mark.parametrize(("x", "y"), [(False, False), (True, False), (False, True)])
def test_batched_product(make, x, y):
    first, second = (2, 5, 3) if x else (2, 3, 5), (2, 7, 5) if y else (2, 5, 7)
    operands = [make.input(first), make.input(second, name="z")]
    assert_same(make.file(make.operator("BATCH_MATMUL", operands, (2, 3, 7), (-12, 12), adjX=x, adjY=y)))


def test_tokens():
    """Whole numbers as inputs: a table's rows, and the shape of a tensor as one."""
    make = Maker()
    ids = make.tensor((4,), "int32", values=np.array([3, 0, 2, 3]))
    table = make.constant(np.asarray(make.random.normal(size=(5, 6))))
    rows = make.operator("EMBEDDING_LOOKUP", [ids, table], (4, 6))
    value = make.operator("ADD", [rows, make.input((4, 6))], (4, 6))
    shape = make.operator("SHAPE", [value], (2,), dtype="int32", outType=schema.TensorType.INT32)
    grown = make.operator("CAST", [shape], (2,), dtype="float32")
    total = make.operator("SUM", [grown, make.numbers(0)], (1,), keepDims=True)
    assert_same(make.file(make.operator("ADD", [value, total], (4, 6))))


@pytest.mark.parametrize("block", [None, (4, 1)])
def test_sparse_weights(block):
    """What DENSIFY makes of them: compressed rows, or rows of compressed blocks."""
    make = Maker()
    dense = make.random.normal(size=(8, 12)).astype(np.float32)
    taken = make.random.random((2, 12) if block else (8, 12)) < 0.4
    taken[0, 0], taken[1] = True, taken[1] & False
    dense *= np.repeat(taken, 4, axis=0) if block else taken
    values, parameters = compressed(dense, taken, block)
    weights = make.tensor(dense.shape, values=values)
    make.graph.tensors[weights].sparsity = parameters
    whole = make.operator("DENSIFY", [weights], dense.shape)
    bias = make.tensor((8,), values=make.random.normal(size=8))
    assert_same(make.file(make.operator("FULLY_CONNECTED", [make.input((3, 12)), whole, bias], (3, 8))))


def compressed(dense, taken, block):
    """(values, description): the first axis dense, the second a list for each of its entries."""
    counts = taken.sum(axis=1)
    segments, indices = schema.Int32VectorT(), schema.Uint8VectorT()
    segments.values = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    indices.values = np.nonzero(taken)[1].astype(np.uint8)
    levels = [schema.DimensionMetadataT() for _ in range(3 if block else 2)]
    levels[0].format, levels[0].denseSize = schema.DimensionType.DENSE, len(taken)
    levels[1].format = schema.DimensionType.SPARSE_CSR
    levels[1].arraySegmentsType, levels[1].arraySegments = schema.SparseIndexVector.Int32Vector, segments
    levels[1].arrayIndicesType, levels[1].arrayIndices = schema.SparseIndexVector.Uint8Vector, indices
    parameters = schema.SparsityParametersT()
    parameters.dimMetadata, parameters.traversalOrder = levels, [*range(len(levels))]
    values = dense[taken] if block is None else None
    if block:
        levels[2].format, levels[2].denseSize = schema.DimensionType.DENSE, block[0]
        parameters.blockMap = [0]
        values = dense.reshape(len(taken), block[0], -1).transpose(0, 2, 1)[taken].reshape(-1)
    return values, parameters
