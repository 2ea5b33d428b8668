"""Runs a kernel on buffers between pages that may not be touched: a stray access is a segmentation fault."""

import ctypes
import mmap

import numpy as np
import tvm

from kernels.compile import compile_module
from kernels.reference import max_error, random_inputs, reference

_PROTECT = ctypes.CDLL(None, use_errno=True).mprotect
_ALIGNMENT = 64  # what TVM's code expects of a buffer's start


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy that ends where its pages end (to within 60 bytes when its size is no multiple of 64)."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    inside = -(-size // page) * page
    memory = mmap.mmap(-1, inside + 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (address, address + page + inside):
        assert _PROTECT(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
    copy = np.frombuffer(memory, array.dtype, array.size, page + inside - size).reshape(array.shape)
    copy[...] = array
    return copy


def error_of(kernel, workload, config, target, threads=1):
    """Build, run between guard pages, and compare: the largest error relative to the largest value."""
    inputs = random_inputs(workload, np.random.default_rng())
    function = compile_module(kernel.build(workload, config, target, threads, "candidate"), target)[
        "candidate"
    ]
    packed = kernel.pack(workload, config, target, inputs[1])
    buffers = [guarded(array) for array in (inputs[0], packed, *inputs[2:])]
    out = guarded(np.full(workload.out_shape, np.nan, np.float32))
    function(*(tvm.runtime.from_dlpack(buffer) for buffer in (*buffers, out)))
    return max_error(out, reference(workload, inputs))
