import numpy as np
import pytest
from operators_guarded import assembly, check, random_bytes

from kernels.int8.quantization import Quantization
from kernels.operators.int8.add import QAdd
from kernels.target import CATALOGUE


@pytest.mark.parametrize("shape", [(1, 24, 7, 5), (3, 5), (7,), (1, 1, 1, 1), (2, 64, 33, 17)])
@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        (("uint8", 0.02, 3), ("uint8", 0.05, 128), ("uint8", 0.06, 10)),
        (("int8", 0.5, -128), ("uint8", 0.0001, 255), ("int8", 0.3, 127)),
        (("int8", 3.0, -5), ("int8", 5.0, 5), ("uint8", 0.0125, 0)),
        (("uint8", 1e-6, 0), ("uint8", 2e-6, 0), ("int8", 0.1, -7)),
    ],
)
def test_sums_are_the_reference_to_the_last_bit(shape, a, b, out):
    a, b, out = (Quantization(*each) for each in (a, b, out))
    rng = np.random.default_rng()
    inputs = random_bytes(shape, a.dtype, rng), random_bytes(shape, b.dtype, rng)
    for threads, clamp in ((1, None), (3, (0, 100))):
        check(QAdd.of(shape, a, b, out, clamp), inputs, threads)


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


def test_scales_too_far_apart_are_refused():
    with pytest.raises(ValueError, match="shift"):
        QAdd.of((4,), Quantization("uint8", 4e6), Quantization("uint8", 1.0), Quantization("uint8", 1.0))


def test_code_is_vectors():
    same = Quantization("uint8", 0.1, 3)
    operator = QAdd.of((1, 64, 56, 56), same, Quantization("uint8", 0.07), Quantization("uint8", 0.13))
    x86, arm = (assembly(operator, CATALOGUE[name]) for name in ("x86-avx2", "rpi4"))
    assert x86.count("vpmulld") == 8
    assert "vpackuswb" in x86

    assert ".4s" in arm
    assert "mla\tv" in arm
