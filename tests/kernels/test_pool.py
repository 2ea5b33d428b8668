import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels.emit.compile import compile_module
from kernels.layout import from_layout, layouts_for, to_layout
from kernels.operators.pool import Pool, build_pool, predict_pool
from kernels.target import CATALOGUE

HOST = CATALOGUE["x86-avx2"]
PLANES = {
    "3x3/2 padded": ((1, 24, 17, 19), (9, 10), (3, 3), (2, 2), (1, 1)),
    "3x3/2 hanging over": ((2, 8, 14, 30), (7, 15), (3, 3), (2, 2), (0, 0)),
    "3x3/1 same": ((1, 19, 9, 9), (9, 9), (3, 3), (1, 1), (1, 1)),
    "2x2/2": ((1, 16, 8, 8), (4, 4), (2, 2), (2, 2), (0, 0)),
    "4x3/3": ((1, 3, 11, 40), (3, 13), (4, 3), (3, 3), (0, 0)),
    "1x1/2": ((1, 16, 7, 7), (4, 4), (1, 1), (2, 2), (0, 0)),
    "long": ((1, 8, 5, 33), (5, 31), (1, 11), (1, 1), (0, 4)),
    "whole": ((2, 24, 7, 7), (1, 1), (7, 7), (1, 1), (0, 0)),
    "whole, odd": ((1, 5, 1, 3), (1, 1), (1, 3), (1, 1), (0, 0)),
}


def expected(pool, data):
    result = np.empty(pool.out_shape, np.float32)
    for row, column in np.ndindex(*pool.out):
        start = [at * step - pad for at, step, pad in zip((row, column), pool.stride, pool.pad, strict=True)]
        parts = [slice(max(0, at), at + size) for at, size in zip(start, pool.window, strict=True)]
        window = data[:, :, parts[0], parts[1]].astype(np.float64)
        if pool.kind == "max":
            result[:, :, row, column] = window.max((2, 3))
        else:
            size = np.prod(pool.window) if pool.counted else np.prod(window.shape[2:])
            result[:, :, row, column] = window.sum((2, 3)) / size
    return result


def pooled(pool, data, layout, threads=1):
    """Built and run between guard pages."""
    function = compile_module(build_pool(pool, layout, HOST, threads, "main"), HOST)["main"]
    out = guarded(to_layout(np.full(pool.out_shape, np.nan, np.float32), layout))
    function(*map(tvm.runtime.from_dlpack, (guarded(to_layout(data, layout)), out)))
    return from_layout(out, layout)


@pytest.mark.parametrize("name", PLANES)
@pytest.mark.parametrize(("kind", "counted"), [("max", False), ("average", False), ("average", True)])
def test_pooling_in_every_layout(name, kind, counted):
    pool = Pool(kind, *PLANES[name], counted)
    assert pool.why_not() is None
    data = np.random.default_rng(5).standard_normal(pool.shape).astype(np.float32) - 3
    for threads, layout in enumerate(layouts_for(pool.shape[1], HOST), start=1):
        assert np.allclose(pooled(pool, data, layout, threads), expected(pool, data), rtol=1e-5, atol=1e-6), (
            layout
        )
        assert predict_pool(pool, layout, HOST) > 0


@pytest.mark.parametrize("name", PLANES)
def test_windows_of_nothing_but_minus_infinity_stay_that(name):
    pool = Pool("max", *PLANES[name])
    data = np.full(pool.shape, -np.inf, np.float32)
    for layout in layouts_for(pool.shape[1], HOST):
        assert np.array_equal(pooled(pool, data, layout), np.full(pool.out_shape, -np.inf)), layout


def test_threads_split_large_planes():
    pool = Pool("max", (1, 16, 64, 64), (32, 32), (3, 3), (2, 2), (1, 1))
    data = np.random.default_rng(5).standard_normal(pool.shape).astype(np.float32)
    for layout in layouts_for(16, HOST):
        assert np.array_equal(pooled(pool, data, layout, 2), expected(pool, data)), layout


def test_a_window_without_elements_is_refused():
    assert Pool("max", (1, 8, 4, 4), (3, 3), (2, 2), (2, 2), (0, 0)).why_not()
