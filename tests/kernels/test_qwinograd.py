"""Winograd of 8-bit integers: as exact as the direct sum."""

import dataclasses
import random
import re

import pytest
from qguarded import quanta_off

from kernels.compile import compile_module
from kernels.qwinograd import QuantizedWinograd
from kernels.target import CATALOGUE
from kernels.workload import QConv2d

KERNEL = QuantizedWinograd()
AVX2, AVX512 = CATALOGUE["x86-avx2"], CATALOGUE["x86-avx512"]
ODD = [
    QConv2d(1, 1, 1, 1, 1, 3, 3, pad=(1, 1, 1, 1)),
    QConv2d(1, 8, 8, 16, 32, 3, 3, pad=(1, 1, 1, 1), data_zero=7, out_zero=3, scale="small"),
    QConv2d(2, 7, 9, 6, 20, 3, 3, (1, 1), (1, 0, 2, 1), (1, 1), 1, "int8", "uint8", "int8", -3, 130, 5),
    QConv2d(1, 9, 9, 3, 5, 3, 3, data_zero=128, per_channel=False, clamp=(7, 240)),
    QConv2d(1, 5, 5, 33, 17, 3, 3, pad=(2, 2, 2, 2), scale="power", out_dtype="int8", out_zero=-4),
    QConv2d(1, 33, 35, 8, 24, 3, 3, out_dtype="int32", data_dtype="int8"),
    QConv2d(1, 6, 3, 700, 9, 3, 3, pad=(1, 1, 1, 1), scale="small"),  # sums use almost all of int32
]


@pytest.mark.parametrize("conv", ODD, ids=str)
def test_odd_shapes_are_right_to_the_last_bit(conv):
    """The recommended config, and random points of the space, on one thread and on three."""
    rng = random.Random(conv.key)
    every = [config for config in KERNEL.space(conv, AVX2) if KERNEL.why_inexact(conv, config) is None]
    for point in [KERNEL.recommend(conv, AVX2), *rng.sample(every, min(2, len(every)))]:
        assert quanta_off(KERNEL, conv, point, AVX2) == 0, point
    shared = list(KERNEL.space(conv, AVX2, threads=3))
    shared = [config for config in shared if KERNEL.why_inexact(conv, config) is None]
    for split in ("bands", "blocks"):
        point = rng.choice([config for config in shared if config["split"] == split])
        assert quanta_off(KERNEL, conv, point, AVX2, threads=3) == 0, point


def test_what_it_cannot_compute():
    conv = ODD[1]
    assert KERNEL.why_not(conv, AVX2) is None
    assert "3x3" in KERNEL.why_not(dataclasses.replace(conv, stride=(2, 2)), AVX2)
    assert "3x3" in KERNEL.why_not(dataclasses.replace(conv, kw=1, pad=(0, 0, 0, 0)), AVX2)
    assert KERNEL.why_not(dataclasses.replace(conv, groups=2), AVX2) == "grouped"
    assert KERNEL.why_not(conv, CATALOGUE["rpi4"]) == "for x86-64"
    deep = dataclasses.replace(conv, in_c=2048)
    assert "may not fit int32" in KERNEL.why_not(deep, AVX2)
    assert KERNEL.why_not(dataclasses.replace(deep, weight_range=(-64, 64), data_dtype="int8"), AVX2) is None


@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm")])
def test_it_multiplies_pairs_of_int16(target, register):
    conv = dataclasses.replace(ODD[1], in_c=64, out_c=64)
    build = KERNEL.build(conv, KERNEL.recommend(conv, target), target, 1, "main")
    assembly = compile_module(build, target).inspect_source("asm")
    assert len(re.findall(rf"vpmaddwd\s.*%{register}", assembly)) >= 8
    assert "prefetch" not in assembly or KERNEL.recommend(conv, target)["prefetch"]


@pytest.mark.parametrize(("base", "feature"), [(AVX2, "+avxvnni"), (AVX512, "+avx512vnni")])
def test_where_there_is_vnni_multiplying_and_adding_are_one_instruction(base, feature):
    """LLVM sees to that; the code is not run here."""
    target = dataclasses.replace(base, features=(feature,))
    conv = dataclasses.replace(ODD[1], in_c=64, out_c=64)
    build = KERNEL.build(conv, KERNEL.recommend(conv, target), target, 1, "main")
    assembly = compile_module(build, target).inspect_source("asm")
    assert len(re.findall(r"vpdpwssd\s", assembly)) >= 8
    assert "vpmaddwd" not in assembly
