import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels.emit.compile import compile_module
from kernels.layout import from_layout, layouts_for, to_layout
from kernels.operators.resize import Along, Resize, build_resize, predict_resize
from kernels.target import CATALOGUE

HOST = CATALOGUE["x86-avx2"]
SAME, TWICE = Along(5, 5, 1, 1), Along(5, 10, 1, 2)
CASES = [
    Resize(2, 3, TWICE, Along(13, 26, 1, 2)),
    Resize(1, 16, SAME, Along(3, 9, 1, 3)),
    Resize(1, 16, Along(6, 11, 2, 0), Along(9, 5, 2, 0)),
    Resize(2, 8, Along(6, 11, 4, 0), Along(9, 21, 4, 0)),
    Resize(1, 24, Along(1, 1, 1, 1), Along(7, 17, 1, 0)),
    Resize(1, 1, Along(9, 4, 1, 0), SAME),
    Resize(1, 40, TWICE, Along(1, 3, 2, 0)),
    Resize(1, 5, Along(31, 67, 2, 0), Along(33, 65, 2, 0)),
]


def random_tables(along, rng):
    """The tables, and what each index and weight is with or without them."""
    shape = along.taps, along.after
    indices = rng.integers(0, along.before, shape).astype(np.int32)
    weights = rng.standard_normal(shape).astype(np.float32)
    tables = [indices] * (not along.repeats) + [weights] * (along.taps > 1)
    if along.repeats:
        indices = np.arange(along.after)[None] // along.repeats
    return tables, indices, weights if along.taps > 1 else np.ones(shape, np.float32)


@pytest.mark.parametrize("each", CASES, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_images_are_resized_in_every_layout(each, threads):
    rng = np.random.default_rng()
    data = rng.standard_normal(each.shape).astype(np.float32)
    rows, row_indices, row_weights = random_tables(each.rows, rng)
    columns, column_indices, column_weights = random_tables(each.columns, rng)
    expected = np.einsum("nctywx,ty->ncywx", data[:, :, row_indices][..., None, :], row_weights)[..., 0, :]
    expected = np.einsum("ncytx,tx->ncyx", expected[..., column_indices], column_weights)
    for layout in layouts_for(each.channels, HOST):
        function = compile_module(build_resize(each, layout, HOST, threads, "main"), HOST)["main"]
        out = guarded(to_layout(np.full(each.out, np.nan, np.float32), layout))
        arrays = [guarded(array) for array in (to_layout(data, layout), *rows, *columns)]
        function(*map(tvm.runtime.from_dlpack, (*arrays, out)))
        np.testing.assert_allclose(from_layout(out, layout), expected, rtol=1e-5, atol=1e-5, err_msg=layout)
        assert predict_resize(each, layout, HOST) > 0
