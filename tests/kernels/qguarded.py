"""Runs a quantized kernel between pages that may not be touched and counts what differs."""

import numpy as np
import tvm
from guarded import guarded

from kernels.emit.compile import compile_module
from kernels.reference import max_error, random_inputs, reference


def quanta_off(kernel, conv, config, target, threads=1, seed=None):
    """Build, run between guard pages, and compare: the largest difference in quanta; relative of floats."""
    inputs = random_inputs(conv, np.random.default_rng(seed))
    return quanta_off_of(kernel, conv, config, target, inputs, threads)


def quanta_off_of(kernel, conv, config, target, inputs, threads=1):
    """The same for given inputs."""
    expected = reference(conv, inputs)
    function = compile_module(kernel.build(conv, config, target, threads, "candidate"), target)["candidate"]
    buffers = [guarded(inputs[0]), *map(guarded, kernel.constants(conv, config, target, inputs))]
    out = guarded(~expected if expected.dtype.kind in "iu" else np.full_like(expected, np.nan))
    function(*(tvm.runtime.from_dlpack(buffer) for buffer in (*buffers, out)))
    return max_error(out, expected)
