import random
from dataclasses import replace

import pytest
from on_targets import AVX2

from kernels import registry
from kernels.int8.requantize import choices, why_inexact
from kernels.isa.arm import AARCH64
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, Gemm
from kernels.workload.qconv2d import QConv2d

QUANTIZED = [
    QConv2d(1, 9, 9, 20, 16, 3, 3, weight_range=(-64, 64)),
    QConv2d(1, 9, 9, 24, 24, 3, 3, groups=24, weight_range=(-64, 64)),
    QConv2d(1, 9, 9, 24, 24, 3, 3, groups=4, weight_range=(-64, 64)),
]
CONV = Conv2d(1, 64, 56, 56, 64, 3, 3, pad=(1, 1, 1, 1))


def test_an_exact_space_is_the_part_of_the_whole_without_winograd():
    everything = set(registry.search_space(CONV, AVX2))
    exact = set(registry.search_space(CONV, AVX2, Numerics.EXACT))
    relaxed = everything - exact
    assert {config.kernel for config in relaxed} == {"winograd"}
    assert {config["m"] for config in relaxed} > {2}
    assert exact
    assert all(config.kernel != "winograd" for config in exact)
    assert {registry.numerics_of(CONV, config) for config in exact} == {Numerics.EXACT}
    assert {registry.numerics_of(CONV, config) for config in relaxed} == {Numerics.RELAXED}
    reason = registry.why_not_allowed(CONV, relaxed.pop(), Numerics.EXACT)
    assert reason.startswith("it is not exact: Winograd adds")


@pytest.mark.parametrize("taps", [3, 5])
def test_the_analysis_recommends_what_the_numerics_allow(taps):
    conv = replace(CONV, kh=taps, kw=taps)
    relaxed = registry.recommendations(conv, AVX2)
    exact = registry.recommendations(conv, AVX2, Numerics.EXACT)
    space = registry.search_space(conv, AVX2, Numerics.EXACT)
    assert relaxed[0].kernel == "winograd"
    assert space.why_not(relaxed[0])
    assert [space.why_not(config) for config in exact] == [None] * len(exact)
    assert exact == [config for config in relaxed if config.kernel != "winograd"]


@pytest.mark.parametrize("target", ["rpi4", "rpi4-32", "rpi5", "x86-avx2"])
@pytest.mark.parametrize("conv", QUANTIZED, ids=str)
def test_integers_are_exact_unless_relaxed_numerics_are_asked_for(target, conv):
    """Who says nothing gets no way that rounds twice; who says ``relaxed`` has it in each space."""
    target = CATALOGUE[target]
    inexact = {way for way in choices(conv, target) if why_inexact(way)}
    assert inexact == {"int32", *["arm"] * (target.isa is AARCH64)}
    for space in registry.search_space(conv, target, Numerics.RELAXED).spaces:
        assert inexact < set(space.knobs["requant"])
        relaxed = replace(space, knobs={**space.knobs, "requant": sorted(inexact)}).sample(random.Random(1))
        assert registry.numerics_of(conv, relaxed) is Numerics.RELAXED
        for asked in ({}, {"numerics": Numerics.EXACT}, {"numerics": Numerics.EXACT_INTEGERS}):
            assert registry.search_space(conv, target, **asked).why_not(relaxed)
    for asked in ({}, {"numerics": Numerics.RELAXED}):
        for config in registry.recommendations(conv, target, **asked):
            assert registry.numerics_of(conv, config) is Numerics.EXACT
    for space in registry.search_space(conv, target).spaces:
        assert not inexact & set(space.knobs["requant"])


def test_floats_may_be_relaxed_where_integers_are_exact():
    default, relaxed = registry.search_space(CONV, AVX2), registry.search_space(CONV, AVX2, Numerics.RELAXED)
    assert set(default) == set(relaxed)


def test_what_is_not_known_is_not_exact():
    for workload, config in (
        (CONV, Config.of("someone_elses", m=2)),
        (CONV, Config.of("winograd", tiles=8)),
        (CONV, Config.of("winograd", m="two")),
        (Gemm(8, 8, 8), Config.of("winograd", m=2, tiles=8, vectors=1)),
    ):
        assert registry.numerics_of(workload, config) is Numerics.RELAXED
    assert registry.numerics_of(Gemm(8, 8, 8), Config.of("gemm", rows=1)) is Numerics.EXACT
