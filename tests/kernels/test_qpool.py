import numpy as np
import pytest
from operators_guarded import assembly, check, random_bytes
from test_pool import PLANES

from kernels.int8.quantization import Quantization
from kernels.operators.int8.pool import QPool
from kernels.operators.pool import Pool
from kernels.target import CATALOGUE

PLANES = {
    **PLANES,
    "more than fits 16 bits": ((1, 40, 13, 12), (1, 1), (13, 12), (1, 1), (0, 0)),
    "3x3/2 large": ((1, 37, 41, 43), (21, 22), (3, 3), (2, 2), (1, 1)),
}


@pytest.mark.parametrize("name", PLANES)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_maxima(name, dtype):
    same = Quantization(dtype, 0.1, 5)
    operator = QPool.of(Pool("max", *PLANES[name]), same, same)
    data = random_bytes(operator.pool.shape, dtype, np.random.default_rng())
    check(operator, [data], 1 if dtype == "int8" else 3)


@pytest.mark.parametrize("name", PLANES)
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    ("data", "out"),
    [
        (("uint8", 0.02, 3), ("uint8", 0.019, 10)),
        (("int8", 0.5, -128), ("uint8", 0.3, 127)),
        (("int8", 0.02, 127), ("int8", 0.0001, -20)),
    ],
)
def test_means(name, counted, data, out):
    pool = Pool("average", *PLANES[name], counted)
    operator = QPool.of(pool, Quantization(*data), Quantization(*out))
    array = random_bytes(pool.shape, data[0], np.random.default_rng())
    check(operator, [array], 1 if counted else 3)


def test_means_are_what_the_real_numbers_say():
    pool, data, out = (
        Pool("average", *PLANES["3x3/1 same"]),
        Quantization("uint8", 0.021, 3),
        Quantization("int8", 0.0187),
    )
    array = random_bytes(pool.shape, "uint8", np.random.default_rng(3))
    real = data.real(array)
    means = [
        real[:, :, max(0, i - 1) : i + 2, max(0, j - 1) : j + 2].mean((2, 3)) for i, j in np.ndindex(pool.out)
    ]
    expected = out.quanta(np.stack(means, -1).reshape(pool.out_shape)).astype(int)
    got = QPool.of(pool, data, out).reference(array).astype(int)
    assert np.abs(got - expected).max() <= 1
    assert (got != expected).mean() < 1e-2


def test_what_cannot_be_is_refused():
    pool, one = Pool("max", *PLANES["2x2/2"]), Quantization("uint8", 0.1)
    with pytest.raises(ValueError, match="keeps the quantization"):
        QPool.of(pool, one, Quantization("uint8", 0.2))
    with pytest.raises(ValueError, match="scales for"):
        QPool(Pool("average", *PLANES["2x2/2"]), "uint8", "uint8", (0, 0))
    with pytest.raises(ValueError, match="outside"):
        QPool.of(Pool("max", (1, 8, 4, 4), (3, 3), (2, 2), (2, 2), (0, 0)), one, one)


@pytest.mark.parametrize("kind", ["max", "average"])
@pytest.mark.parametrize(
    ("plane", "message"),
    [
        (((1, 1, 1 << 30, 4), (1 << 30, 4), (1, 1), (1, 1), (0, 0)), "at most 65536 rows and columns"),
        (((1, 8, 900, 900), (900, 900), (801, 801), (1, 1), (400, 400)), "801x801 hang over the edges"),
        (((1, 0, 4, 4), (2, 2), (2, 2), (2, 2), (0, 0)), "nothing is pooled"),
    ],
)
def test_sizes_that_would_take_for_ever_are_refused(kind, plane, message):
    same = Quantization("uint8", 0.1)
    with pytest.raises(ValueError, match=message):
        QPool.of(Pool(kind, *plane), same, same)


@pytest.mark.parametrize("kind", ["max", "average"])
def test_code_is_vectors(kind):
    same = Quantization("uint8", 0.1)
    operator = QPool.of(Pool(kind, (1, 64, 30, 30), (28, 28), (3, 3), (1, 1), (0, 0)), same, same)
    x86, arm = (assembly(operator, CATALOGUE[name]) for name in ("x86-avx2", "rpi4"))
    assert ("vpmaxub" if kind == "max" else "vpmuludq") in x86.replace("vpmuldq", "vpmuludq")
    assert ("umax" if kind == "max" else "uaddw") in arm
