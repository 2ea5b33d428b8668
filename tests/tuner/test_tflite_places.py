"""TFLite operators that look up, count and fill, spectra, and open shapes, against LiteRT."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from tflite_compare import assert_same, built, by_litert, by_us, operators

from bench.tflite_models import FUSED, TYPES, VALID, Maker
from compiler.ir.checks import ModelError
from compiler.load import load_graph
from compiler.readers.tflite.convert import to_onnx

IMAGE = (1, 5, 6, 4)
RNG = np.random.default_rng()


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_lookup_by_several_indices(dtype):
    make = Maker(dtype)
    places = make.numbers(*[[[0, 4, 1], [0, 2, 5]], [[0, 0, 0], [0, 3, 3]]])
    assert_same(make.file(make.like("GATHER_ND", make.input(IMAGE), (2, 2, 4), [places])))


@pytest.mark.parametrize(("axis", "shape"), [(-1, (2, 3, 4)), (0, (4, 2, 3)), (1, (2, 4, 3))])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_places_of_ones(dtype, axis, shape):
    make = Maker()
    places = make.input((2, 3), dtype=dtype)
    depth, on, off = (make.tensor((), kind, values=number) for kind, number in (
        ("int32", 4), ("float32", 2.5), ("float32", -1.0)))  # fmt: skip
    data = make.file(make.operator("ONE_HOT", [places, depth, on, off], shape, axis=axis))
    ends = np.iinfo(np.int32)  # LiteRT reads no more of int64
    run = built(to_onnx(data))
    for values in ([0, 1, 3, 2, 2, 0], [4, -1, 3, ends.max, ends.min, -4]):
        feed = {"x": np.array(values, dtype).reshape(2, 3)}
        np.testing.assert_array_equal(run(feed)["y"], by_litert(data, feed)["y"])


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_of_the_largest_numbers(approximate):
    make = Maker()
    data = make.file(make.operator("GELU", [make.input((5,))], (5,), approximate=approximate))
    feed = {"x": np.float32([3e38, -3e38, np.inf, 1, -1])}
    np.testing.assert_allclose(built(to_onnx(data))(feed)["y"], [3e38, 0, np.inf, 0.8413, -0.1587], rtol=2e-3)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_blocks_become_images_and_back(dtype):
    make = Maker(dtype)
    data, block = make.input((2, 5, 6, 3)), make.numbers(2, 3)
    apart = make.like("SPACE_TO_BATCH_ND", data, (12, 4, 3, 3), [block, make.numbers((1, 2), (0, 3))])
    again = make.like("BATCH_TO_SPACE_ND", apart, (2, 6, 8, 3), [block, make.numbers((0, 2), (1, 0))])
    assert_same(make.file(apart, again))


def test_quotients_of_integers():
    make = Maker()
    data = make.operator("CAST", [make.input((7, 9), limits=(-9, 9))], (7, 9), dtype="int32")
    for kind in ("FLOOR_DIV", "FLOOR_MOD"):
        values = [make.operator(kind, [data, make.numbers(by)], (7, 9), dtype="int32") for by in (2, -3)]
        both = make.operator("CONCATENATION", values, (14, 9), dtype="int32", axis=0)
        result = make.operator("CAST", [both], (14, 9))
    assert_same(make.file(result))
    other = Maker()
    assert_same(
        other.file(
            other.operator(
                "FLOOR_MOD", [other.input(IMAGE), other.tensor((1,), values=np.array([-0.7]))], IMAGE
            )
        )
    )


def test_the_rest_of_what_is_much_larger_than_its_divisor():
    make = Maker()
    given = [make.input((8,), name=name) for name in "ab"]
    data = make.file(make.operator("FLOOR_MOD", given, (8,)))
    feeds = {"a": np.float32([1e10, -1e10, 3e38, 7, -7, 6, np.inf, -0.0])}
    feeds["b"] = np.float32([-1.4, 1.4, 0.7, np.inf, 4, -3, 2, 5])
    for name, wanted in by_litert(data, feeds).items():
        np.testing.assert_array_equal(built(to_onnx(data))(feeds)[name], wanted)


def test_constants_are_counted_and_filled():
    make = Maker()
    one = [make.tensor((), "int32", values=np.asarray(value)) for value in (3, 12, 2)]
    count = make.operator("RANGE", one, (5,), dtype="int32")
    fives = make.operator("FILL", [make.numbers(5), one[0]], (5,), dtype="int32")
    total = make.operator("ADD", [count, fives], (5,), dtype="int32")
    zeros = make.operator("ZEROS_LIKE", [total], (5,), dtype="int32")
    rows = make.operator("GATHER", [make.input((20, 3)), total], (5, 3), axis=0)
    first = make.operator("GATHER", [rows, zeros], (5, 3), axis=0)
    made = assert_same(make.file(make.operator("ADD_N", [rows, first, rows], (5, 3))))
    assert operators(made) == ["Gather", "Gather", "Add", "Add"]


@pytest.mark.parametrize("samples", [2, 4, 64, 512])
def test_spectra(samples):
    make = Maker()
    data, bins = make.input((3, 1, samples)), samples // 2 + 1
    wave = make.operator("RFFT2D", [data, make.numbers(1, samples)], (3, 1, bins), dtype="complex64")
    flat = make.operator("RESHAPE", [wave, make.numbers(3, bins)], (3, bins), dtype="complex64")
    parts = [make.operator(kind, [flat], (3, bins)) for kind in ("COMPLEX_ABS", "REAL", "IMAG")]
    assert_same(make.file(*parts))


def test_new_axes_and_all_others():
    make = Maker()
    data, limits = (
        make.input((4, 5, 6)),
        [make.numbers(0, 0, 2), make.numbers(0, 0, 5), make.numbers(1, 1, 1)],
    )
    made = make.operator("STRIDED_SLICE", [data, *limits], (1, 4, 5, 3), newAxisMask=1, ellipsisMask=2)
    last = make.operator(
        "STRIDED_SLICE", [data, *limits], (4, 1, 6), shrinkAxisMask=2, newAxisMask=4, beginMask=1, endMask=1
    )
    assert_same(make.file(made, last))


def test_bytes_without_a_scale():
    make = Maker()
    data = make.input((3, 8), "uint8")
    make.graph.tensors[data].quantization = None
    assert_same(make.file(make.operator("CAST", [data], (3, 8))))


def test_shapes_that_the_file_leaves_open():
    """A converter writes 1 for an extent that an operator computes, even of constants."""
    make = Maker()
    data = make.input((4, 6))
    shape = make.operator("SHAPE", [data], (2,), dtype="int32", outType=TYPES["int32"])
    halves = make.operator("FLOOR_DIV", [shape, make.numbers(1, 2)], (2,), dtype="int32")
    limits = [make.numbers(0, 0), halves, make.numbers(1, 1)]
    cut = make.operator("STRIDED_SLICE", [data, *limits], (1, 1))
    wide = make.operator("EXPAND_DIMS", [cut, make.numbers(1)], (1, 1, 1))
    flat = make.operator("RESHAPE", [wide, make.numbers(3, -1)], (1, 1))
    for index in (cut, wide, flat):
        make.graph.tensors[index].shapeSignature = [-1] * len(make.shape(index))
    assert_same(make.file(flat))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("shape", [(1, 9, 7, 3), (2, 4, 12, 3)], ids=str)
def test_inputs_that_the_file_leaves_open_take_a_shape(dtype, shape):
    """Also one whose windows find no place in what the file has there."""
    data = open_image(dtype)
    model = to_onnx(data, {"x": shape})
    interpreter = Interpreter(model_content=data)
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], shape)
    interpreter.allocate_tensors()
    kind = {"float32": np.float32, "int8": np.int8}[dtype]
    x = (RNG.standard_normal(shape) * (1 if dtype == "float32" else 40)).astype(kind)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    wanted = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    (found,) = by_us(model, {"x": x}).values()
    assert found.shape == wanted.shape
    assert np.abs(found.astype(np.float64) - wanted).max() <= (1e-4 if dtype == "float32" else 1)


def test_open_inputs_are_named_where_they_matter(tmp_path):
    data = open_image("float32")
    with pytest.raises(ModelError, match=r"input 'x' \[1, 1, 1, 3\] open along 0, 1, 2: .* --shape"):
        to_onnx(data)
    with pytest.raises(
        ModelError, match=r"\[1, 9, 7, 4\] given for input 'x' does not fit its \[\?, \?, \?, 3\]"
    ):
        to_onnx(data, {"x": (1, 9, 7, 4)})
    path = tmp_path / "open.tflite"
    path.write_bytes(data)
    assert load_graph(path, {"x": (1, 9, 7, 3)}).tensors["y"].shape == (1, 7, 5, 8)


def open_image(dtype: str) -> bytes:
    """A convolution of 3x3 over a plane that is not known, and its activation."""
    make = Maker(dtype)
    image = make.input((1, 1, 1, 3))
    maps = make.convolution(image, 8, padding=VALID, fused=FUSED.RELU)
    make.graph.tensors[maps].shape[:] = [1, 1, 1, 8]
    for index in (image, maps):
        make.graph.tensors[index].shapeSignature = [-1, -1, -1, make.shape(index)[3]]
    return make.file(maps)
