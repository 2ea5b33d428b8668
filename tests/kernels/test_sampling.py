"""GridSample between guard pages; ``tests/tuner/operators`` compares all modes with onnxruntime."""

import numpy as np
import pytest
import tvm
from guarded import guarded
from on_targets import AVX2

from kernels.emit.compile import compile_module
from kernels.operators.sampling import Sampling, build_sampling


@pytest.mark.parametrize("nearest", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_far_outside_and_no_numbers_read_nothing_beyond_the_image(nearest, padding):
    it = Sampling((2, 3, 5, 1), (3, 4), nearest, padding, aligned=True)
    rng = np.random.default_rng()
    data, grid = rng.normal(size=it.shape), rng.uniform(-1, 1, (2, 3, 4, 2))
    inside = grid[1].copy()
    grid[0] = rng.choice([np.nan, np.inf, -np.inf, 1e30, -1e30, 3.0, -3.0], (3, 4, 2))
    buffers = [guarded(each.astype(np.float32)) for each in (data, grid, np.zeros((2, 3, 3, 4)))]
    compile_module(build_sampling(it, "main"), AVX2)["main"](*map(tvm.runtime.from_dlpack, buffers))
    # All places across are those of the one column.
    rows = (inside[..., 1] + 1) * 2
    low = np.rint(rows).astype(int) if nearest else np.floor(rows).astype(int)
    part = 0 if nearest else rows - low
    column = data[1, :, :, 0]
    expected = column[:, low] * (1 - part) + column[:, np.minimum(low + 1, 4)] * part
    np.testing.assert_allclose(buffers[2][1], expected, rtol=1e-4, atol=1e-4)
