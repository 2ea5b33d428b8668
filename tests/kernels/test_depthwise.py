import random
import re

import guarded
import pytest
from on_targets import ALL, AVX2, WIDTHS, assembly_of

from kernels.explain.assembly import hot_loop
from kernels.float.depthwise.kernel import Depthwise
from kernels.float.depthwise_rows.kernel import DepthwiseRows
from kernels.layout import PLAIN, Layouts
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, Epilogue, Gemm

CHANNELS, ROWS = Depthwise(), DepthwiseRows()
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
    Conv2d(1, 3, 9, 33, 3, 3, 3, (2, 2), SAME, groups=3, epilogue=ALL),
    Conv2d(2, 3, 19, 35, 3, 5, 5, (2, 2), (2, 2, 2, 2), groups=3, epilogue=ALL),
    Conv2d(1, 3, 19, 36, 3, 5, 5, (1, 2), (1, 3, 2, 0), (2, 3), groups=3),  # taps of both phases
    Conv2d(1, 3, 9, 80, 3, 3, 3, (2, 2), groups=3, epilogue=BIAS),
]


@pytest.mark.parametrize("workload", SHAPES, ids=str)
def test_random_points_in_every_layout_are_correct(workload):
    rng = random.Random(str(workload))
    cases = [(AVX2, CHANNELS, layouts) for layouts in CHANNELS.layouts(workload, AVX2)]
    cases += [(target, CHANNELS, CHANNELS.layouts(workload, target)[-1]) for target in WIDTHS]
    cases += [(target, ROWS, PLAIN) for target in (AVX2, *WIDTHS) if ROWS.why_not(workload, target) is None]
    for target, kernel, layouts in cases:
        threads = rng.choice((1, 3))
        point = rng.choice(list(kernel.space(workload, target, layouts, threads)))
        error = guarded.error_of(kernel, workload, point, target, threads)
        assert error < kernel.tolerance, (str(point), target.vector_bits, threads)


@pytest.mark.parametrize("target", CATALOGUE.values(), ids=str)
def test_every_space_is_small_and_holds_the_recommendation(target):
    for workload in SHAPES:
        for kernel in (CHANNELS, ROWS):
            if kernel.why_not(workload, target) is not None:
                continue
            for layouts in kernel.layouts(workload, target):
                for threads in (1, 4):
                    space = kernel.space(workload, target, layouts, threads)
                    pick = kernel.recommend(workload, target, layouts, threads)
                    assert space.why_not(pick) is None
                    assert kernel.predict(workload, pick, target, threads) > 0
                    assert len(list(space)) <= 40


def test_channels_are_read_in_every_layout_that_they_allow():
    assert CHANNELS.layouts(SHAPES[0], AVX2) == (PLAIN, Layouts("nhwc", "nhwc"), Layouts("nchw8c", "nchw8c"))
    assert CHANNELS.layouts(SHAPES[1], AVX2) == (PLAIN, Layouts("nhwc", "nhwc"))


def test_refuses_all_but_one_filter_a_channel():
    for kernel in (CHANNELS, ROWS):
        assert "groups" in str(kernel.why_not(Conv2d(1, 4, 8, 8, 4, 3, 3, groups=2), AVX2))
        assert "groups" in str(kernel.why_not(Conv2d(1, 4, 8, 8, 8, 3, 3, groups=4), AVX2))
        assert "conv2d" in str(kernel.why_not(Gemm(2, 2, 2), AVX2))


def test_rows_shorter_than_a_vector_are_left_to_vectors_of_channels():
    assert "shorter" in str(ROWS.why_not(Conv2d(1, 8, 9, 7, 8, 3, 3, pad=SAME, groups=8), AVX2))
    assert "stride" in str(ROWS.why_not(Conv2d(1, 8, 9, 70, 8, 3, 3, (1, 3), groups=8), AVX2))


@pytest.mark.parametrize(
    ("target", "pattern"),
    [("x86-avx2", r"vfmadd.*%ymm"), ("x86-avx512", r"vfmadd.*%zmm"), ("rpi4", r"fmla\s+v\d+\.4s")],
)
def test_multiplies_in_whole_registers_without_spills(target, pattern):
    target, workload = CATALOGUE[target], Conv2d(1, 64, 56, 56, 64, 5, 5, pad=(2, 2, 2, 2), groups=64)
    for layouts in CHANNELS.layouts(workload, target)[1:]:
        config = CHANNELS.recommend(workload, target, layouts)
        text = assembly_of(CHANNELS, workload, config, target)
        assert len(re.findall(pattern, text)) >= 5 * config.int("columns")
        hot = hot_loop(text, target.triple, 5 * config.int("columns") * target.lanes())
        assert hot is not None
        assert hot.vector_spills == 0, str(config)
