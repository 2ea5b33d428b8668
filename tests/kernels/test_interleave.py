from itertools import pairwise

import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels.emit.compile import compile_module
from kernels.layout import from_layout, layouts_for, to_layout
from kernels.operators.interleave import Interleave, build_interleave, predict_interleave
from kernels.target import CATALOGUE

HOST = CATALOGUE["x86-avx2"]
CASES = [
    Interleave((1, 12, 3, 4), (1, 3, 6, 8), (2, 2), 3),
    Interleave((2, 12, 5, 19), (2, 3, 9, 36), (2, 2), 1, (1, 1)),
    Interleave((1, 64, 3, 21), (1, 16, 5, 41), (2, 2), 16, (1, 0)),
    Interleave((1, 48, 1, 10), (1, 16, 1, 28), (1, 3), 16, (0, 2)),
    Interleave((1, 128, 2, 9), (1, 16, 4, 35), (2, 4), 8, (0, 1)),
    Interleave((1, 10, 4, 7), (1, 2, 17, 7), (5, 1), 2, (3, 0)),
    Interleave((1, 6, 2, 1), (1, 2, 2, 1), (1, 3), 1, (0, 2)),
    Interleave((1, 40, 70, 70), (1, 10, 140, 140), (2, 2), 10),
    Interleave((1, 64, 5, 21), (1, 16, 9, 41), (2, 2), 16, (1, 0), ((1, 1), (1, 1))),
    Interleave((2, 240, 5, 21), (2, 16, 22, 61), (5, 3), 8, (2, 1), ((2, 3), (2, 1))),
    Interleave((1, 24, 3, 19), (1, 8, 8, 19), (3, 1), 1, (1, 0), ((1, 2), ())),
    Interleave((1, 24, 1, 19), (1, 8, 1, 53), (1, 3), 8, (0, 2), ((), (1, 1, 1))),
]


def expected(each, data):
    (n, _, h, w), (_, c, rows, columns), (down, right) = each.shape, each.out, each.steps
    apart = data.reshape(n, c // each.run, down, right, each.run, h, w).transpose(0, 1, 4, 5, 2, 6, 3)
    whole = apart.reshape(n, c, h * down, w * right)
    top, left = each.crop
    return whole[:, :, top : top + rows, left : left + columns]


def inputs(each, data):
    """The parts of ``data``, without the pixels of which nothing is wanted."""
    (n, _, h, w), (down, right) = each.shape, each.steps
    apart = data.reshape(n, -1, down, right, each.run, h, w)
    ends = []
    for axis, step in enumerate(each.steps):
        first, last = each.crop[axis], (each.crop[axis] + each.out[2 + axis] - 1) % step
        places = [0, *np.cumsum(each.parts[axis] or (step,))]
        ends.append([(a, b, int(b <= first), each.shape[2 + axis] - (a > last)) for a, b in pairwise(places)])
    return [
        apart[:, :, top:bottom, left:right, :, start:stop, begin:end].reshape(
            n, -1, stop - start, end - begin
        )
        for top, bottom, start, stop in ends[0]
        for left, right, begin, end in ends[1]
    ]


@pytest.mark.parametrize("each", CASES, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_channels_become_pixels_in_every_layout(each, threads):
    data = np.random.default_rng().standard_normal(each.shape).astype(np.float32)
    for layout in layouts_for(each.out[1], HOST):
        function = compile_module(build_interleave(each, layout, HOST, threads, "main"), HOST)["main"]
        out = guarded(to_layout(np.full(each.out, np.nan, np.float32), layout))
        parts = [guarded(to_layout(part, layout)) for part in inputs(each, data)]
        function(*map(tvm.runtime.from_dlpack, (*parts, out)))
        assert np.array_equal(from_layout(out, layout), expected(each, data)), layout
        assert predict_interleave(each, layout, HOST) > 0
