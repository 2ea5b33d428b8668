"""Runs a kernel on buffers between pages that may not be touched: a stray access is a segmentation fault."""

import ctypes
import mmap

import numpy as np
import tvm

from kernels.emit.compile import compile_module
from kernels.layout import PLAIN, from_layout, stored_shape, to_layout
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
    """Build, run between guard pages, and compare: the largest error relative to the largest value.

    Activations are stored as the config's layouts say, and the result is compared as NCHW.
    """
    inputs = random_inputs(workload, np.random.default_rng())
    function = compile_module(kernel.build(workload, config, target, threads, "candidate"), target)[
        "candidate"
    ]
    packed = kernel.pack(workload, config, target, inputs[1])
    arrays, out_shape, layouts = [inputs[0], *inputs[2:]], workload.out_shape, config.layouts
    if layouts != PLAIN:
        # The bias is the one that is no image.
        rest = [to_layout(array, layouts.out) if array.ndim == 4 else array for array in inputs[2:]]
        arrays, out_shape = [to_layout(inputs[0], layouts.data), *rest], stored_shape(layouts.out, out_shape)
    data, *rest = (guarded(array) for array in arrays)
    out = guarded(np.full(out_shape, np.nan, np.float32))
    function(*(tvm.runtime.from_dlpack(buffer) for buffer in (data, guarded(packed), *rest, out)))
    result = out if layouts == PLAIN else from_layout(out, layouts.out)
    return max_error(result, reference(workload, inputs))
