import random
from dataclasses import replace

import guarded
import pytest
from on_targets import ALL, AVX2, AVX512, WIDTHS, assembly_of

from kernels.float.grouped.kernel import Grouped
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Conv2d, Epilogue, Gemm

KERNEL = Grouped()
TWO_FILTERS = Conv2d(1, 32, 56, 56, 64, 3, 3, pad=(1, 1, 1, 1), groups=32)


def config(filters: int, rows: int, vectors: int, flat: int = 0) -> Config:
    return Config.of("grouped", filters=filters, rows=rows, vectors=vectors, flat=flat)


def error_of(workload: Conv2d, config: Config, threads: int = 1, target: Target = AVX2) -> float:
    return guarded.error_of(KERNEL, workload, config, target, threads)


@pytest.mark.parametrize(
    "workload",
    [
        Conv2d(1, 5, 14, 14, 10, 3, 3, pad=(1, 1, 1, 1), groups=5, epilogue=ALL),
        Conv2d(2, 6, 7, 7, 3, 3, 3, pad=(1, 1, 1, 1), groups=3, epilogue=ALL),
        Conv2d(
            1, 4, 15, 21, 8, 3, 3, stride=(2, 2), pad=(0, 0, 1, 1), groups=4, epilogue=Epilogue(bias=True)
        ),
        Conv2d(1, 2, 23, 50, 6, 5, 5, stride=(3, 3), pad=(2, 2, 2, 2), groups=2),
        Conv2d(1, 12, 9, 10, 15, 3, 3, pad=(1, 0, 0, 2), groups=3, epilogue=ALL),
        Conv2d(1, 4, 20, 21, 8, 3, 3, dilation=(2, 3), pad=(0, 1, 2, 3), groups=4),
        Conv2d(2, 8, 19, 19, 14, 3, 3, groups=2, epilogue=Epilogue(clamp=(-1.0, 1.0))),
        Conv2d(1, 4, 12, 12, 2, 9, 9, pad=(4, 4, 4, 4), groups=2, epilogue=Epilogue(residual=True)),
        Conv2d(1, 6, 5, 30, 6, 1, 1, stride=(2, 1), groups=3),
        Conv2d(1, 4, 1, 1, 2, 1, 1, groups=2),
    ],
    ids=str,
)
def test_random_points_of_the_space_are_correct(workload):
    rng = random.Random(str(workload))
    for threads in (1, 2, 3):
        point = rng.choice(list(KERNEL.space(workload, AVX2, threads=threads)))
        assert error_of(workload, point, threads) < KERNEL.tolerance, point


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=lambda target: target.name)
@pytest.mark.parametrize(
    "workload",
    [TWO_FILTERS, Conv2d(1, 64, 7, 7, 128, 3, 3, groups=4), Conv2d(1, 2, 1, 1, 4, 1, 1, groups=2)],
    ids=str,
)
def test_every_space_is_small_and_holds_the_recommendation(workload, target):
    space = KERNEL.space(workload, target)
    assert space.why_not(KERNEL.recommend(workload, target)) is None
    assert 1 <= len(list(space)) <= 64


@pytest.mark.parametrize(("target", "register"), [(AVX2, "%ymm"), (AVX512, "%zmm")])
def test_multiplies_in_whole_registers(target, register):
    lines = assembly_of(KERNEL, TWO_FILTERS, KERNEL.recommend(TWO_FILTERS, target), target).splitlines()
    assert sum("vfmadd" in line and register in line for line in lines) >= 9


def test_an_impossible_register_block_is_refused_with_the_reason():
    space = KERNEL.space(Conv2d(1, 8, 30, 30, 16, 3, 3, groups=8), AVX2)
    assert "accumulators" in str(space.why_not(config(1, 6, 4)))
    assert "one row" in str(space.why_not(config(1, 2, 2, flat=1)))


def test_refuses_one_group_and_one_channel_a_group():
    assert "depthwise" in str(KERNEL.why_not(Conv2d(1, 4, 8, 8, 4, 3, 3, groups=4), AVX2))
    assert "group" in str(KERNEL.why_not(Conv2d(1, 4, 8, 8, 4, 3, 3), AVX2))
    assert "conv2d" in str(KERNEL.why_not(Gemm(2, 2, 2), AVX2))


@pytest.mark.parametrize("target", WIDTHS, ids=lambda target: f"{target.vector_bits} bits")
@pytest.mark.parametrize(
    "workload",
    [replace(TWO_FILTERS, in_h=19, in_w=23, epilogue=ALL), Conv2d(1, 6, 15, 37, 9, 3, 3, (2, 2), groups=3)],
    ids=str,
)
def test_any_vector_length_computes_the_same(workload, target):
    for point in random.Random(5).sample(list(KERNEL.space(workload, target)), 2):
        assert error_of(workload, point, target=target) < KERNEL.tolerance, point
