"""Quantized convolutions whose groups have few filters: merged on x86, by lanes on Arm."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest
from on_targets import AVX2, AVX512, RPI4, assembly_of
from qguarded import quanta_off

from kernels import registry
from kernels.int8.x86.direct.grouped import merged
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, QConv2d

X86, ARM = registry.kernel("qgrouped"), registry.kernel("qgrouped_neon")
NARROW = (-64, 64)
ODD = [
    QConv2d(1, 9, 7, 128, 128, 3, 3, pad=(1, 1, 1, 1), groups=32, weight_range=NARROW, scale="small"),
    QConv2d(2, 7, 6, 21, 14, 3, 2, (2, 1), (1, 0, 2, 1), (1, 2), groups=7, data_zero=9, clamp=(20, 200)),
    QConv2d(1, 5, 6, 6, 18, 3, 3, pad=(1, 1, 1, 1), groups=6, data_dtype="int8", data_zero=-5, out_zero=7),
    QConv2d(1, 6, 5, 12, 20, 1, 1, groups=4, weight_dtype="uint8", weight_zero=99, out_dtype="int8"),
    # No weight is zero, and those beside the groups' are.
    QConv2d(1, 4, 9, 10, 15, 2, 2, groups=5, weight_range=(50, 64), data_zero=77, scale="power"),
    QConv2d(1, 4, 4, 24, 8, 3, 3, pad=(2, 2, 2, 2), groups=2, out_dtype="int32"),
]


@pytest.mark.parametrize("conv", ODD, ids=str)
def test_merged_groups_are_right_to_the_last_bit(conv):
    rng = random.Random(conv.key)
    for threads in (1, 3):
        space = X86.space(conv, AVX2, threads=threads)
        exact = [config for config in space if X86.why_inexact(conv, config) is None]
        for config in [X86.recommend(conv, AVX2, threads=threads), *rng.sample(exact, 2)]:
            assert space.why_not(config) is None
            assert quanta_off(X86, conv, config, AVX2, threads) == 0, config


def test_groups_are_merged_as_far_as_vectors_fill():
    conv = replace(ODD[0], in_c=64, out_c=64)
    assert [merged(replace(conv, groups=groups), AVX2).groups for groups in (64, 32, 16)] == [8, 8, 8]
    assert merged(ODD[1], AVX2).groups == 1
    assert merged(ODD[4], AVX2).weight_range == (0, 64)


@pytest.mark.parametrize("conv", ODD, ids=str)
def test_every_group_has_a_kernel_wherever_there_are_vectors(conv):
    for target in (AVX2, AVX512, RPI4, CATALOGUE["rpi5"], CATALOGUE["rpi4-32"]):
        assert registry.why_not_tunable(conv, target) is None
        for config in registry.recommendations(conv, target):
            assert assembly_of(registry.kernel(config.kernel), conv, config, target)


def test_what_they_do_not_compute():
    assert X86.why_not(ODD[0], RPI4) == "for x86-64"
    assert ARM.why_not(ODD[0], AVX2) == "there is no NEON on x86-avx2"
    assert X86.why_not(replace(ODD[0], groups=8), AVX2) == "groups have a vector of filters"
    for kernel, target in ((X86, AVX2), (ARM, RPI4)):
        assert kernel.why_not(Conv2d(1, 4, 4, 4, 4, 3, 3, groups=2), target) is not None
        assert kernel.why_not(replace(ODD[0], groups=1), target) == "not grouped"
        assert kernel.why_not(replace(ODD[0], groups=128), target) == "one filter to each channel"


def test_filters_on_arm_are_packed_tile_by_tile():
    """[group][tile][tap][channel][filter], the last tile narrower and filled up to fours."""
    conv = QConv2d(1, 5, 5, 6, 28, 3, 2, groups=2)
    config = Config.of("qgrouped_neon", multiply="lane", block="4x2", rows=2, requant="exact")
    weights = np.random.default_rng(1).integers(-128, 128, conv.weight_shape, dtype=np.int8)
    packed = ARM.pack(conv, config, RPI4, weights).reshape(2, 6 * 3 * 16)
    assert packed.size == ARM.plan(conv, config, RPI4).packed_length
    first, last = packed[:, : 6 * 3 * 8].reshape(2, 6, 3, 8), packed[:, 6 * 3 * 8 :].reshape(2, 6, 3, 8)
    expected = weights.reshape(6, 3, 2, 14).transpose(2, 0, 1, 3)
    assert np.array_equal(first, expected[..., :8])
    assert np.array_equal(last[..., :6], expected[..., 8:])
    assert not last[..., 6:].any()


def test_products_on_arm_are_by_lane_and_leave_nothing_on_the_stack():
    conv = replace(ODD[0], in_h=14, in_w=14, in_c=512, out_c=512)
    config = Config.of("qgrouped_neon", multiply="lane", block="7x2", rows=14, requant="high")
    assembly = assembly_of(ARM, conv, config, RPI4)
    blocks = re.split(r"\n(?=\.LBB)", assembly)
    loop = max(blocks, key=lambda block: len(re.findall(r"\ssmlal", block)))
    # 7 windows by 8 filters by 8 channels.
    assert len(re.findall(r"\ssmlal2?\s+v\d+\.4s, v\d+\.[48]h, v\d+\.h\[\d\]", loop)) == 7 * 2 * 8
    assert not re.findall(r"\[sp", loop)


def test_dot_products_take_units_of_four_channels():
    conv = QConv2d(1, 9, 9, 40, 48, 3, 3, pad=(1, 1, 1, 1), groups=4, scale="small")
    rpi5 = CATALOGUE["rpi5"]
    config = Config.of("qgrouped_neon", multiply="dot", block="4x3", rows=9, requant="high")
    assert ARM.space(conv, rpi5).why_not(config) is None
    assert ARM.space(conv, RPI4).why_not(config) is not None
    wide = replace(conv, weight_dtype="uint8", weight_zero=99)
    assert {c["multiply"] for c in ARM.space(wide, rpi5)} == {"lane"}
    assert ARM.plan(conv, config, rpi5).offset == -128
    weights = np.random.default_rng(1).integers(-128, 128, conv.weight_shape, dtype=np.int8)
    packed = ARM.pack(conv, config, rpi5, weights).reshape(4, 9, 3, 12, 4)
    expected = weights.reshape(9, 10, 4, 12).transpose(2, 0, 3, 1)
    assert np.array_equal(packed[:, :, 1], expected[..., 4:8])
    assert np.array_equal(packed[:, :, 2, :, :2], expected[..., 8:])
    assert not packed[:, :, 2, :, 2:].any()
    assembly = assembly_of(ARM, conv, config, rpi5)
    # Ten channels are three units; blocks of 9 windows are of three, by three fours of filters.
    assert len(re.findall(r"\ssdot\s+v\d+\.4s, v\d+\.16b, v\d+\.4b\[\d\]", assembly)) == 3 * 3 * 3
