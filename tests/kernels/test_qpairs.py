import numpy as np
import pytest
from operators_guarded import assembly, check, random_bytes

from kernels.int8.quantization import Quantization
from kernels.operators.int8.add import QAdd
from kernels.operators.int8.mul import QMul
from kernels.target import CATALOGUE
from kernels.workload.qconv2d import LIMITS

CASES = [
    (("uint8", 0.02, 3), ("uint8", 1 / 256, 0), ("uint8", 0.02, 10)),
    (("uint8", 0.02, 3), ("uint8", 0.05, 128), ("uint8", 0.06, 10)),
    (("int8", 0.5, -128), ("uint8", 0.0001, 255), ("int8", 0.003, 127)),
    (("int8", 3.0, -5), ("int8", 5.0, 127), ("uint8", 0.0125, 0)),
    (("uint8", 1e-6, 0), ("uint8", 2e-6, 0), ("int8", 0.1, -7)),
    (("uint8", 5e2, 255), ("int8", 1e2, -128), ("uint8", 1e-3, 128)),
]


@pytest.mark.parametrize(
    ("shape", "planes"),
    [
        *((shape, False) for shape in [(1, 24, 7, 5), (7,), (1, 1, 1, 1), (2, 64, 33, 17)]),
        *(
            (shape, True)
            for shape in [(1, 24, 7, 5), (2, 1, 3, 3), (3, 5, 1, 4), (2, 70, 33, 17), (2, 8, 1, 1)]
        ),
    ],
)
@pytest.mark.parametrize(("a", "b", "out"), CASES)
@pytest.mark.parametrize("kind", [QMul, QAdd])
def test_products_and_sums_are_the_reference_to_the_last_bit(kind, shape, planes, a, b, out):
    a, b, out = (Quantization(*each) for each in (a, b, out))
    if kind is QAdd and max(a.scale, b.scale) / out.scale > 1e4:
        pytest.skip("no sum of such scales")
    second = (*shape[:2], 1, 1) if planes else shape
    rng = np.random.default_rng()
    inputs = random_bytes(shape, a.dtype, rng), random_bytes(second, b.dtype, rng)
    for threads, clamp in ((1, None), (3, (0, 100))):
        check(kind.of(shape, a, b, out, clamp, second), inputs, threads)


@pytest.mark.parametrize(("a", "b", "out"), CASES)
def test_products_are_what_the_real_numbers_say(a, b, out):
    a, b, out = (Quantization(*each) for each in (a, b, out))
    x, y = np.meshgrid(a.all_quanta(), b.all_quanta())
    got = QMul.of(x.shape, a, b, out).reference(x, y).astype(int) - out.zero
    real = (x.astype(int) - a.zero) * (y.astype(int) - b.zero) * (a.scale * b.scale / out.scale)
    low, high = (limit - out.zero for limit in LIMITS[out.dtype])
    assert np.abs(got - real.clip(low, high)).max() < 0.5 + 1e-4


def test_sums_are_what_the_real_numbers_say():
    a, b, out = (
        Quantization("uint8", 0.02173, 3),
        Quantization("int8", 0.0517, -9),
        Quantization("uint8", 0.0611),
    )
    x, y = np.meshgrid(a.all_quanta(), b.all_quanta())
    got = QAdd.of(x.shape, a, b, out).reference(x, y).astype(int)
    real = out.quanta(a.real(x) + b.real(y)).astype(int)
    # Multipliers of 21 bits, and ties.
    assert np.abs(got - real).max() <= 1
    assert (got != real).mean() < 1e-3


def test_what_cannot_be_is_refused():
    same = Quantization("uint8", 0.1, 3)
    for kind in (QMul, QAdd):
        for second in ((1, 1, 4, 4), (1, 8, 4, 1), (8,), (2, 8, 1, 1)):
            with pytest.raises(ValueError, match="for each of its planes, got"):
                kind.of((1, 8, 4, 4), same, same, same, None, second)
    with pytest.raises(ValueError, match="scales"):
        QMul.of((4,), Quantization("uint8", 1e6), Quantization("uint8", 1e6), Quantization("uint8", 1e-6))
    with pytest.raises(ValueError, match="shift"):
        QAdd.of((4,), Quantization("uint8", 4e6), Quantization("uint8", 1.0), Quantization("uint8", 1.0))
    with pytest.raises(ValueError, match="zero point of int8"):
        QMul((4,), (4,), ("int8", "int8", "int8"), (0, 128, 0), (-128, 127), 1 << 30, 3)
    with pytest.raises(ValueError, match="zero point of uint8"):
        QAdd((4,), (4,), ("uint8", "int8", "int8"), (-1, 0, 0), (-128, 127), (1 << 20, 1 << 20), 20)


def test_code_is_vectors():
    shape, same, other = (1, 64, 56, 56), Quantization("uint8", 0.1, 3), Quantization("uint8", 0.07)
    product = QMul.of(shape, same, other, same, None, (1, 64, 1, 1))
    total = QAdd.of(shape, same, other, Quantization("uint8", 0.13))
    for operator, multiply, on_arm in ((product, "vpmuldq", "smull"), (total, "vpmulld", "mla\tv")):
        x86, arm = (assembly(operator, CATALOGUE[name]) for name in ("x86-avx2", "rpi4"))
        assert x86.count(multiply) % 8 == 0 < x86.count(multiply)
        assert "vpackuswb" in x86
        assert on_arm in arm
        assert ".4s" in arm
