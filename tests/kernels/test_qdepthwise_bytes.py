"""Depthwise quantized convolution on bytes: to the last bit at the ends of what is proven."""

import dataclasses
import random
import re

import numpy as np
import pytest
from on_targets import AVX2, AVX512, assembly_of
from qguarded import quanta_off

from kernels.int8.x86.depthwise.kernel import QuantizedDepthwiseBytes
from kernels.int8.x86.depthwise.taps import Taps
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d

KERNEL = QuantizedDepthwiseBytes()


def depthwise(h, w, c, side, stride=(1, 1), pad=None, n=1, **more):
    more = {"weight_range": (-64, 64)} | more
    return QConv2d(n, h, w, c, c, side, side, stride, pad or (side // 2,) * 4, groups=c, **more)


UINT8 = {"weight_dtype": "uint8", "weight_zero": 130, "weight_range": None}
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
        weight_zero=3,
        weight_range=(-50, 60),
    ),
    depthwise(5, 5, 5, 5, data_zero=128, per_channel=False, out_dtype="int8", out_zero=-7, clamp=(-3, 90)),
    depthwise(6, 11, 33, 4, scale="power", weight_range=(-16, 16)),
    depthwise(9, 9, 48, 3, (1, 2), (2, 2, 2, 2), dilation=(2, 2), out_dtype="int32"),
    depthwise(7, 7, 24, 7, pad=(0, 0, 0, 0), scale="small"),  # one window
    depthwise(4, 9, 70, 2, out_zero=255, clamp=(20, 240)),
    depthwise(11, 13, 144, 3, (2, 2), data_dtype="int8", data_zero=-128, out_dtype="int8", scale="small"),
    depthwise(7, 10, 16, 5, (3, 3), (4, 0, 0, 3), data_zero=250, per_channel=False, scale="small"),
    depthwise(2, 3, 80, 3, n=2, weight_range=None, data_zero=9, scale="small"),  # all at the edge
    depthwise(9, 7, 20, 3, (2, 2), (0, 1, 1, 0), 2, data_dtype="int8", data_zero=-3, **UINT8),
    depthwise(6, 9, 33, 2, weight_dtype="uint8", weight_range=None, scale="small"),
]


@pytest.mark.parametrize("conv", ODD, ids=str)
def test_odd_shapes_are_right_to_the_last_bit(conv):
    """The recommended config, and random points of the space, on one thread and on three."""
    rng = random.Random(conv.key)
    every = [config for config in KERNEL.space(conv, AVX2) if KERNEL.why_inexact(conv, config) is None]
    points = [KERNEL.recommend(conv, AVX2), *rng.sample(every, min(2, len(every)))]
    for threads, point in zip((1, 1, 3), points, strict=False):
        assert quanta_off(KERNEL, conv, point, AVX2, threads) == 0, point


@pytest.mark.parametrize(
    ("weights", "zero", "ends_of_weights"),
    [
        ("int8", 0, (-64, 64)),
        ("int8", 0, (-128, 127)),
        *[("uint8", zero, (0, 255)) for zero in (0, 130, 255)],
    ],
)
@pytest.mark.parametrize("side", [2, 3, 5])
@pytest.mark.parametrize("data", ["int8", "uint8"])
def test_sums_of_taps_hold_at_the_ends_of_the_proven_range(
    data, side, weights, zero, ends_of_weights, monkeypatch
):
    """All data and weights are ends of their ranges: where int16 saturates or wraps if it ever does."""
    more = {"weight_dtype": weights, "weight_zero": zero, "weight_range": ends_of_weights}
    conv = depthwise(6, 6, 32, side, pad=(0, 0, 1, 0), n=4, data_dtype=data, out_dtype="int32", **more)
    ends = {"int8": (-128, 127), "uint8": (0, 255)}[data]

    def inputs(conv, rng):
        signs = rng.choice(ends_of_weights, (3, *conv.weight_shape)).astype(weights)
        signs[1], signs[2] = ends_of_weights
        first = np.where(np.arange(conv.out_c) % 3 == 0, signs[0], signs[1])
        every = np.where(np.arange(conv.out_c) % 3 == 1, signs[2], first).astype(weights)
        return [rng.choice(ends, conv.data_shape).astype(data), every, np.zeros(conv.out_c, np.int32)]

    monkeypatch.setattr("qguarded.random_inputs", inputs)
    point = next(iter(KERNEL.space(conv, AVX2)))
    assert quanta_off(KERNEL, conv, point, AVX2, seed=0) == 0


@pytest.mark.parametrize(("zero", "excess"), [(100, 28), (0, 128), (128, 0), (255, -127)])
def test_what_takes_weights_out_of_int8_is_taken_off(zero, excess):
    conv = dataclasses.replace(ODD[1], weight_dtype="uint8", weight_zero=zero, weight_range=None)
    assert Taps(conv).excess == excess
    assert not Taps(conv).together
    assert Taps(dataclasses.replace(conv, weight_zero=255, weight_range=(0, 60))).together


@pytest.mark.parametrize("out", ["int8", "uint8"])
def test_scales_of_any_small_size_round_ties_up(out, monkeypatch):
    """Shifts from 2 to 31, sums from far outside to the ties between two results."""
    zero = {"int8": -100, "uint8": 200}[out]
    conv = depthwise(4, 64, 48, 1, n=4, scale="small", data_zero=128, out_dtype=out, out_zero=zero)

    def inputs(conv, rng):
        data = rng.integers(0, 256, conv.data_shape).astype(np.uint8)
        weights = rng.integers(-64, 65, conv.weight_shape).astype(np.int8)
        shift = rng.integers(2, 32, conv.out_c).astype(np.int32)
        multiplier = rng.integers(1 << 30, 1 << 31, conv.out_c).astype(np.int32)
        multiplier[::3] = 1 << 30
        bias = rng.integers(-300, 300, conv.out_c) << shift.clip(0, 20)
        return [data, weights, bias.astype(np.int32), multiplier, shift]

    monkeypatch.setattr("qguarded.random_inputs", inputs)
    point = next(iter(KERNEL.space(conv, AVX2)))
    assert quanta_off(KERNEL, conv, point, AVX2, seed=0) == 0


def test_what_it_cannot_compute():
    for filters in (8, 16):
        conv = QConv2d(1, 4, 4, 8, filters, 3, 3, groups=1 if filters == 8 else 8)
        assert KERNEL.why_not(conv, AVX2) == "needs one filter a channel"
    assert "taps" in KERNEL.why_not(depthwise(9, 9, 8, 9), AVX2)
    assert KERNEL.why_not(ODD[1], CATALOGUE["rpi4"]) == "for x86-64"


@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm")])
def test_taps_go_in_pairs(target, register):
    """Nine taps are five pairs, for both halves of a vector."""
    conv = depthwise(10, 10, target.vector_bits // 8, 3, pad=(0, 0, 0, 0), scale="small")
    config = next(c for c in KERNEL.space(conv, target) if c["windows"] == 1 and c["order"] == "rows")
    assembly = assembly_of(KERNEL, conv, config, target)
    assert len(re.findall(rf"vpmaddubsw\s.*%{register}", assembly)) == 10
    assert re.search(rf"vpackuswb\s.*%{register}", assembly)
