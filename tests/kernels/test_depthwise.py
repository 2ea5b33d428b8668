import random
from dataclasses import replace

import guarded
import pytest

from kernels.depthwise import Depthwise
from kernels.layout import PLAIN, Layouts
from kernels.target import CATALOGUE
from kernels.workload import RELU, Conv2d, Epilogue, Gemm

KERNEL = Depthwise()
AVX2 = CATALOGUE["x86-avx2"]
# Vectors of other lengths than the machine's: the compiler splits or pads them, the kernel's logic runs.
WIDTHS = [replace(AVX2, vector_bits=bits, vector_registers=32) for bits in (128, 512)]
ALL = Epilogue(bias=True, residual=True, clamp=RELU)
BIAS = Epilogue(bias=True)
SAME = (1, 1, 1, 1)
SHAPES = [
    Conv2d(1, 32, 14, 14, 32, 3, 3, pad=SAME, groups=32, epilogue=ALL),
    Conv2d(2, 5, 7, 7, 5, 3, 3, pad=SAME, groups=5, epilogue=ALL),  # two images, less channels than lanes
    Conv2d(2, 19, 15, 21, 19, 3, 3, (2, 2), (0, 0, 1, 1), groups=19, epilogue=BIAS),  # no vector divides 19
    Conv2d(2, 16, 9, 10, 16, 3, 3, pad=(1, 0, 0, 2), groups=16, epilogue=ALL),
    Conv2d(1, 8, 23, 50, 8, 5, 5, (3, 3), (2, 2, 2, 2), groups=8),
    Conv2d(2, 24, 9, 10, 24, 5, 5, pad=(2, 2, 2, 2), groups=24, epilogue=ALL),
    Conv2d(1, 24, 20, 21, 24, 3, 3, dilation=(2, 3), pad=(0, 1, 2, 3), groups=24),
    Conv2d(1, 8, 2, 2, 8, 3, 3, pad=SAME, groups=8),  # every window meets the padding
    Conv2d(1, 16, 2, 3, 16, 7, 7, pad=(3, 3, 3, 3), groups=16),
    Conv2d(1, 3, 12, 12, 3, 9, 9, pad=(4, 4, 4, 4), groups=3, epilogue=Epilogue(residual=True)),
    Conv2d(1, 11, 6, 6, 11, 1, 1, (2, 2), (3, 3, 0, 0), groups=11),  # windows wholly in the padding
    Conv2d(1, 2, 1, 1, 2, 1, 1, groups=2),
]


@pytest.mark.parametrize("workload", SHAPES, ids=str)
def test_random_points_in_every_layout_are_correct(workload):
    for target in (AVX2, *WIDTHS):
        for layouts in KERNEL.layouts(workload, target):
            for threads in (1, 3):
                points = list(KERNEL.space(workload, target, layouts, threads))
                point = random.Random(f"{workload}{layouts}{threads}").choice(points)
                error = guarded.error_of(KERNEL, workload, point, target, threads)
                assert error < KERNEL.tolerance, (point, target.vector_bits)


def test_reads_and_writes_every_layout_that_the_channels_allow():
    assert KERNEL.layouts(SHAPES[0], AVX2) == (PLAIN, Layouts("nhwc", "nhwc"), Layouts("nchw8c", "nchw8c"))
    assert KERNEL.layouts(SHAPES[1], AVX2) == (PLAIN, Layouts("nhwc", "nhwc"))


def test_refuses_all_but_one_filter_a_channel():
    assert "groups" in str(KERNEL.why_not(Conv2d(1, 4, 8, 8, 4, 3, 3, groups=2), AVX2))
    assert "groups" in str(KERNEL.why_not(Conv2d(1, 4, 8, 8, 8, 3, 3, groups=4), AVX2))
    assert "convolutions" in str(KERNEL.why_not(Gemm(2, 2, 2), AVX2))
