"""Depthwise quantized convolution on x86: to the last bit on odd shapes, by vpmaddwd."""

import random
import re

import pytest
from qguarded import quanta_off

from kernels.compile import compile_module
from kernels.qdepthwise_x86 import QuantizedDepthwiseX86
from kernels.target import CATALOGUE
from kernels.workload import QConv2d

KERNEL = QuantizedDepthwiseX86()
AVX2, AVX512 = CATALOGUE["x86-avx2"], CATALOGUE["x86-avx512"]


def depthwise(h, w, c, side, stride=(1, 1), pad=None, n=1, **more):
    return QConv2d(n, h, w, c, c, side, side, stride, pad or (side // 2,) * 4, groups=c, **more)


ODD = [
    depthwise(3, 3, 1, 1),
    depthwise(8, 8, 32, 3, data_zero=7, out_zero=3, scale="small"),
    depthwise(
        9,
        7,
        20,
        3,
        (2, 2),
        (0, 1, 1, 0),
        2,
        data_dtype="int8",
        data_zero=-3,
        weight_dtype="uint8",
        weight_zero=130,
    ),
    depthwise(5, 5, 5, 5, data_zero=128, per_channel=False, out_dtype="int8", clamp=(-3, 90)),
    depthwise(6, 11, 33, 4, scale="power"),
    depthwise(9, 9, 16, 3, (1, 2), (2, 2, 2, 2), dilation=(2, 2), out_dtype="int32"),
    depthwise(7, 7, 24, 7, pad=(0, 0, 0, 0), scale="small"),  # one window
]


@pytest.mark.parametrize("conv", ODD, ids=str)
def test_odd_shapes_are_right_to_the_last_bit(conv):
    """The recommended config, and random points of the space, on one thread and on three."""
    rng = random.Random(conv.key)
    every = [config for config in KERNEL.space(conv, AVX2) if KERNEL.why_inexact(conv, config) is None]
    points = [KERNEL.recommend(conv, AVX2), *rng.sample(every, min(3, len(every)))]
    for threads, point in zip((1, 1, 1, 3), points, strict=False):
        assert quanta_off(KERNEL, conv, point, AVX2, threads) == 0, point


def test_what_it_cannot_compute():
    assert KERNEL.why_not(QConv2d(1, 4, 4, 8, 8, 3, 3), AVX2) == "needs one filter a channel"
    assert KERNEL.why_not(QConv2d(1, 4, 4, 8, 16, 3, 3, groups=8), AVX2) == "needs one filter a channel"
    assert "taps" in KERNEL.why_not(depthwise(9, 9, 8, 9), AVX2)
    assert KERNEL.why_not(ODD[1], CATALOGUE["rpi4"]) == "for x86-64"


@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm")])
def test_taps_go_in_pairs(target, register):
    """Nine taps are six pairs of rows, for both halves of a vector, and none is shuffled."""
    conv = depthwise(10, 10, 32, 3, scale="small")
    config = next(c for c in KERNEL.space(conv, target) if c["windows"] == 1 and c["requant"] == "high")
    assembly = compile_module(KERNEL.build(conv, config, target, 1, "main"), target).inspect_source("asm")
    assert len(re.findall(rf"vpmaddwd\s.*%{register}", assembly)) % 12 == 0
    assert re.search(rf"vpunpcklwd\s.*%{register}", assembly)
    assert re.search(rf"vpmuldq\s.*%{register}", assembly)
