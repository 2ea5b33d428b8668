import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels.emit.compile import compile_module
from kernels.layout import from_layout, layouts_for, to_layout
from kernels.operators.frames import Frames, build_frames, predict_frames
from kernels.target import CATALOGUE

HOST = CATALOGUE["x86-avx2"]
CASES = [
    Frames((5, 3, 4, 7), 1, 5, 3, pad=1),
    Frames((8, 16, 3, 5), 2, 2, 3, stride=2, pad=1),
    Frames((6, 16, 5, 3), 1, 4, 2, dilation=2, groups=4),
    Frames((6, 8, 2, 2), 2, 3, 4, pad=3, groups=8),
    Frames((4, 2, 1, 1), 4, 3, 1, pad=1),
    Frames((7, 24, 20, 20), 1, 7, 3, pad=1),
]


def expected(each, data):
    _, c, h, w = each.shape
    reach = each.depth * each.stride + each.taps * each.dilation
    volumes = np.pad(data.reshape(each.volumes, -1, c, h, w), [(0, 0), (each.pad, reach)] + 3 * [(0, 0)])
    steps = [volumes[:, t * each.dilation :][:, :: each.stride][:, : each.depth] for t in range(each.taps)]
    taps = np.stack(steps, axis=2).reshape(-1, each.taps, each.groups, c // each.groups, h, w)
    return taps.transpose(0, 2, 1, 3, 4, 5).reshape(each.out)


@pytest.mark.parametrize("each", CASES, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_images_become_channels_in_every_layout(each, threads):
    data = np.random.default_rng().standard_normal(each.shape).astype(np.float32)
    for layout in layouts_for(each.shape[1], HOST):
        function = compile_module(build_frames(each, layout, HOST, threads, "main"), HOST)["main"]
        out = guarded(to_layout(np.full(each.out, np.nan, np.float32), layout))
        function(*map(tvm.runtime.from_dlpack, (guarded(to_layout(data, layout)), out)))
        assert np.array_equal(from_layout(out, layout), expected(each, data)), layout
        assert predict_frames(each, layout, HOST) > 0
