"""Runs an integer operator between pages that may not be touched and compares it with its reference."""

import numpy as np
import tvm
from guarded import guarded

from kernels.emit.compile import compile_module
from kernels.operators.int8.base import from_stored, stored, to_stored
from kernels.target import CATALOGUE
from kernels.workload.qconv2d import LIMITS

HOST = CATALOGUE["x86-avx2"]


def random_bytes(shape, dtype, rng):
    """Uniform, and every tenth at an end of the range."""
    low, high = LIMITS[dtype]
    values = rng.integers(low, high + 1, shape)
    return np.where(rng.random(shape) < 0.1, rng.choice([low, high], shape), values).astype(dtype)


def check(operator, inputs, threads=1):
    """Assert that the built function gives what the reference does, for logical ``inputs``."""
    function = compile_module(operator.build(HOST, threads, "main"), HOST)["main"]
    expected = operator.reference(*inputs)
    assert (expected.shape, expected.dtype.name) == (operator.out_shape, operator.result_dtype)
    out = guarded(np.zeros(stored(operator.out_shape), operator.result_dtype))
    out[...] = ~to_stored(expected)
    arrays = [*map(to_stored, inputs), *operator.constants()]
    function(*(tvm.runtime.from_dlpack(buffer) for buffer in (*map(guarded, arrays), out)))
    assert np.array_equal(from_stored(out), expected)


def assembly(operator, target):
    """The machine code for ``target``, as text."""
    return compile_module(operator.build(target, 1, "main"), target).inspect_source("asm")
