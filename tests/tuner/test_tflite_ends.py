"""Places below 0, quotients of the largest numbers, and floats beyond integers, as LiteRT has them."""

import numpy as np
import pytest
from tflite_compare import built, by_litert

from bench.tflite_models import Maker
from compiler.readers.tflite.convert import to_onnx

pytestmark = pytest.mark.usefixtures("avx2")
ODD = [
    np.nan,
    np.inf,
    -np.inf,
    -0.0,
    2.5,
    -2.5,
    127.5,
    255.9,
    -128.9,
    32768.0,
    3e38,
    -3e38,
    2147483648.0,
    1e19,
]


def compare(data, feeds):
    """Each run is as LiteRT's, or both end; how many end."""
    ours, ended = built(to_onnx(data)), 0
    for feed in feeds:
        try:
            wanted = by_litert(data, feed)
        except RuntimeError:
            ended += 1
            with pytest.raises(Exception, match="needs an index from 0 to"):
                ours(feed)
            continue
        for name, found in ours(feed).items():
            np.testing.assert_array_equal(found, wanted[name])
    return ended


@pytest.mark.parametrize("kind", ["GATHER", "GATHER_ND", "EMBEDDING_LOOKUP"])
def test_places_are_counted_from_the_start_alone(kind):
    make = Maker("float32")
    nd = kind == "GATHER_ND"
    table, places = make.input((4, 3)), make.input((2, 2) if nd else (2,), "int32", name="i")
    operands = [places, table] if kind == "EMBEDDING_LOOKUP" else [table, places]
    options = {"axis": 0} if kind == "GATHER" else {}
    data = make.file(make.operator(kind, operands, (2,) if nd else (2, 3), **options))
    rows = [[0, 3], [-1, 0], [1, 4], [-4, 2]]
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    feeds = [{"x": x, "i": np.array([[a, 1], [b, 2]] if nd else [a, b], np.int32)} for a, b in rows]
    assert compare(data, feeds) == 3


def test_quotients_of_the_largest_integers():
    ends = np.iinfo(np.int32)
    numbers = np.array([ends.min, ends.min + 1, -7, -1, 0, 1, 2, 7, ends.max - 1, ends.max], np.int32)
    x, z = (each.reshape(1, -1).copy() for each in np.meshgrid(numbers, numbers[numbers != 0]))
    x[(x == ends.min) & (z == -1)] = 0
    for kind in ("FLOOR_DIV", "FLOOR_MOD"):
        make = Maker("int32")
        operands = [make.input(x.shape, "int32"), make.input(x.shape, "int32", name="z")]
        assert not compare(make.file(make.operator(kind, operands, x.shape)), [{"x": x, "z": z}])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64"])
def test_floats_beyond_an_integer_become_its_end(kind):
    make = Maker("float32")
    cast = make.operator("CAST", [make.input((1, len(ODD)))], (1, len(ODD)), dtype=kind)
    make.graph.tensors[cast].quantization = None
    assert not compare(make.file(cast), [{"x": np.float32([ODD])}])


def test_a_mean_of_integers():
    make = Maker("int32")
    mean = make.operator("MEAN", [make.input((4, 5)), make.numbers(1)], (4, 1), keepDims=True)
    x = np.random.default_rng().integers(-99, 99, (4, 5), np.int32)
    assert not compare(make.file(mean), [{"x": x}])
