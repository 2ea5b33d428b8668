import numpy as np
import pytest
from operators_guarded import assembly, check, random_bytes

from kernels.int8.quantization import Quantization
from kernels.operators.int8.lookup import QLookup
from kernels.target import CATALOGUE

TANH = [Quantization("int8", 0.02, 3), Quantization("uint8", 0.01, 128)]


@pytest.mark.parametrize("shape", [(1, 24, 7, 5), (3, 5), (19,), (2, 64, 33, 17)])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("out_dtype", ["int8", "uint8"])
def test_any_table(shape, dtype, out_dtype):
    rng = np.random.default_rng()
    data = random_bytes(shape, dtype, rng)
    table = tuple(int(value) for value in random_bytes((256,), out_dtype, rng))
    for threads in (1, 3):
        check(QLookup(shape, dtype, out_dtype, table), [data], threads)


def test_every_value_is_what_the_function_says():
    operator = QLookup.of((256,), *TANH, np.tanh)
    values = TANH[0].all_quanta()
    assert np.array_equal(operator.reference(values), TANH[1].quanta(np.tanh(TANH[0].real(values))))
    check(operator, [values])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_what_only_clips_needs_no_table(dtype):
    same = Quantization(dtype, 0.05, 7)
    operator = QLookup.of((2, 9, 40, 51), same, same, lambda real: real.clip(0, 6))
    assert operator.clamp == (7, 127)
    assert not operator.constants()
    data = random_bytes(operator.shape, dtype, np.random.default_rng())
    for threads in (1, 3):
        check(operator, [data], threads)


def test_tables_of_another_size_are_refused():
    with pytest.raises(ValueError, match="256"):
        QLookup((4,), "uint8", "uint8", (1, 2, 3))
    with pytest.raises(ValueError, match="-128 to 127"):
        QLookup((4,), "uint8", "int8", (128,) * 256)


def test_code_looks_up_whole_vectors():
    operator = QLookup.of((1, 64, 8, 8), *TANH, np.tanh)
    x86, arm = (assembly(operator, CATALOGUE[name]) for name in ("x86-avx2", "rpi4"))
    assert x86.count("vpshufb") == 16
    assert x86.count("vpblendvb") == 15
    assert arm.count("\ttbl\t") == 1
    assert arm.count("\ttbx\t") == 3
    # Where there is no such instruction, one by one.
    assert assembly(operator, CATALOGUE["power10"])
