import dataclasses
import random

import pytest
from guarded import error_of
from test_sconv import AVX2, AVX512, EPILOGUES, NARROW, NEON, ODD_SHAPES, VSX, WIDE

from kernels.float.fconv.kernel import FilterConv
from kernels.space import Config
from kernels.workload.base import Conv2d, Gemm

KERNEL = FilterConv()


def config(block="6x2", order="is", channels=3, windows=24, **more) -> Config:
    return Config.of("fconv", block=block, order=order, channels=channels, windows=windows, **more)


@pytest.mark.parametrize("conv", ODD_SHAPES, ids=str)
def test_odd_shapes_are_right_and_stay_inside_their_buffers(conv):
    """Every shape with the recommended config, and with a random point of its space and an epilogue."""
    rng = random.Random(conv.key)
    assert error_of(KERNEL, conv, KERNEL.recommend(conv, AVX2), AVX2) < KERNEL.tolerance
    finished = dataclasses.replace(conv, epilogue=rng.choice(EPILOGUES[1:]))
    point = KERNEL.space(finished, AVX2).sample(rng)
    assert error_of(KERNEL, finished, point, AVX2) < KERNEL.tolerance, (finished, point)


@pytest.mark.parametrize(
    ("threads", "more"), [(1, {}), (3, {"split": "filters"}), (3, {"split": "windows"})], ids=str
)
@pytest.mark.parametrize(("order", "out_c"), [("is", 3), ("ws", 16), ("is", 27), ("ws", 53)])
def test_every_order_with_several_sets_of_everything(order, threads, more, out_c):
    """Channel sets of 3, 3 and 1, window blocks of 24 with an odd last one, filters no vector divides."""
    conv = Conv2d(2, 7, 9, 10, out_c, 3, 3, stride=(1, 2), pad=(1, 0, 1, 1), epilogue=EPILOGUES[4])
    assert error_of(KERNEL, conv, config(order=order, **more), AVX2, threads) < KERNEL.tolerance


@pytest.mark.parametrize("target", [WIDE, NARROW], ids=lambda target: target.name)
@pytest.mark.parametrize("conv", [ODD_SHAPES[3], ODD_SHAPES[7], ODD_SHAPES[9]], ids=str)
def test_other_vector_widths_compute_the_same(target, conv):
    assert error_of(KERNEL, conv, KERNEL.recommend(conv, target), target) < KERNEL.tolerance


@pytest.mark.parametrize("target", [AVX2, AVX512, NEON, VSX], ids=lambda target: target.name)
def test_the_recommendation_is_in_a_small_space_on_every_target(target):
    for conv in ODD_SHAPES:
        space = KERNEL.space(conv, target)
        assert space.why_not(KERNEL.recommend(conv, target)) is None
        assert len(list(space)) <= 40


def test_what_it_cannot_compute():
    assert KERNEL.why_not(Gemm(4, 4, 4), AVX2) == "computes conv2d, not gemm"
    assert KERNEL.why_not(Conv2d(1, 4, 8, 8, 4, 3, 3, groups=2), AVX2) == "grouped"


def test_recommends_few_channels_at_a_time_where_windows_would_leave_l1():
    """Between two filter tiles, that is: each channel of a small plane's windows takes a cache line."""
    deep, shallow = Conv2d(1, 2048, 7, 7, 512, 1, 1), Conv2d(1, 48, 7, 7, 512, 1, 1)
    assert KERNEL.recommend(deep, AVX2).int("channels") <= 128
    assert KERNEL.recommend(shallow, AVX2)["channels"] == 48
