"""The ways to multiply by a scale: each against the definition, in models and as compiled code."""

import dataclasses
import re

import numpy as np
import pytest
import tvm
from requantize_models import MODELS

from kernels.emit import tir
from kernels.emit.compile import compile_module
from kernels.emit.function import Function
from kernels.int8 import requantize
from kernels.int8.reference import multiply
from kernels.target import CATALOGUE
from kernels.workload.qconv2d import QConv2d

AVX2, NEON, VSX = CATALOGUE["x86-avx2"], CATALOGUE["rpi4"], CATALOGUE["power10"]
NEAR = [v + d for v in (0, 1, 1 << 15, 1 << 30, (1 << 31) - 3) for d in (0, 1, 2)]
EDGES = np.array(sorted({sign * v for v in NEAR for sign in (1, -1)} | {-(1 << 31)}), np.int64)
FACTORS = np.array([0, 1, 1 << 30, (1 << 30) + 1, 1_518_500_249, (1 << 31) - 1], np.int64)


def edge_cases(shifts):
    """Every edge value times every edge multiplier at every shift."""
    value, factor, shift = np.meshgrid(EDGES, FACTORS, np.array(shifts, np.int64))
    return value.ravel(), factor.ravel(), shift.ravel()


def random_cases(count, shifts, seed=0):
    """Values of every magnitude, multipliers as real scales have them."""
    rng = np.random.default_rng(seed)
    value = rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 32, count)
    return value, rng.integers(1 << 30, 1 << 31, count), rng.integers(shifts[0], shifts[-1] + 1, count)


def defined(value, factor, shift):
    return np.clip(multiply(value, factor, shift), -(1 << 30), 1 << 30)


def both(shifts, count=200_000):
    return [
        np.concatenate(pair) for pair in zip(edge_cases(shifts), random_cases(count, shifts), strict=True)
    ]


def test_exact_ways_are_exact_in_their_range():
    cases = both(range(-31, 32))
    assert np.array_equal(MODELS["exact"](*cases), defined(*cases))
    cases = both(range(2, 32))
    assert np.array_equal(MODELS["high"](*cases), defined(*cases))
    value, _, shift = both(range(31))
    factor = np.full_like(value, 1 << 30)
    assert np.array_equal(MODELS["shift"](value, factor, shift), defined(value, factor, shift))


def test_arm_is_at_most_one_off_and_where():
    """Ten million random cases and the edges: it differs only where a rounding meets a rounding.

    That is where the first rounding ends on a tie of the second: from just below it where the value is
    positive; from it or from just above it where it is negative, as the nudge turns such ties down.
    """
    off = total = 0
    for seed in range(10):
        value, factor, shift = random_cases(1_000_000, range(32), seed)
        difference = MODELS["arm"](value, factor, shift) - multiply(value, factor, shift)
        assert np.abs(difference).max() <= 1
        at = difference != 0
        off, total = off + int(np.count_nonzero(at)), total + value.size
        first = (2 * value[at] * factor[at] + (1 << 31)) >> 32
        tie = np.int64(1) << np.maximum(shift[at] - 1, 0)
        # After the first rounding the case is a tie of the second; without a second there is no difference.
        assert np.all(shift[at] > 0)
        assert np.all(first % (2 * tie) == tie)
        # Positive ties are rounded up too much, negative ones down.
        assert np.array_equal(difference[at], np.where(first > 0, 1, -1))
    assert 0 < off < total / 20
    value, factor, shift = edge_cases(range(32))
    assert np.abs(MODELS["arm"](value, factor, shift) - multiply(value, factor, shift)).max() <= 1


def test_int32_is_at_most_one_off_for_results_of_eight_bits():
    for seed in range(10):
        value, factor, shift = random_cases(1_000_000, range(-20, 32), seed)
        got = np.clip(MODELS["int32"](value, factor, shift), -255, 255)
        assert np.abs(got - np.clip(defined(value, factor, shift), -255, 255)).max() <= 1
    assert np.count_nonzero(got != np.clip(defined(value, factor, shift), -255, 255)) > 0


def function(how, lanes, count, shared):
    """A function over ``count`` values with a scale of each, or one scale for all."""
    scales = (1 if shared else count,)
    shapes = {"value": (count,), "multiplier": scales, "shift": scales, "out": (count,)}
    made = Function("main", shapes, dict.fromkeys(shapes, "int32"))
    with made as (value, *scale, out), tir.loop(count // lanes) as i:
        at = tir.vector(i * lanes, lanes)
        scale = [tir.splat(each[0], lanes) if shared else each[at] for each in scale]
        tir.store(out, requantize.fixed_point_multiply(*scale, how, lanes)(value[at]), at)
    return made.result()


@pytest.mark.parametrize("shared", [False, True], ids=["channel", "tensor"])
@pytest.mark.parametrize(
    ("how", "shifts"),
    [("exact", range(-31, 32)), ("high", range(2, 32)), ("shift", range(31)), ("int32", range(-20, 32))],
)
def test_compiled_code_does_what_the_models_do(how, shifts, shared):
    value, factor, shift = both(shifts, 20_000)
    count = value.size // 8 * 8
    value, factor, shift = value[:count], factor[:count], shift[:count]
    if how == "shift":
        factor[:] = 1 << 30
    if shared:
        factor, shift = factor[-1:], shift[-1:]
    compiled = compile_module(function(how, 8, count, shared), AVX2)["main"]
    out = tvm.runtime.tensor(np.zeros(count, np.int32))
    compiled(*(tvm.runtime.tensor(a.astype(np.int32)) for a in (value, factor, shift)), out)
    assert np.array_equal(out.numpy(), MODELS[how](value, factor, shift))


@pytest.mark.parametrize(
    ("target", "how", "wanted"),
    [
        (AVX2, "high", r"vpmuldq.*%ymm"),
        (AVX2, "high", r"vpsravd.*%ymm"),
        (AVX2, "exact", r"vpmuldq.*%ymm"),
        (AVX2, "int32", r"vpmulld.*%ymm"),
        (AVX2, "shift", r"vpsravd.*%ymm"),
        (NEON, "arm", r"sqrdmulh\s+v\d+\.4s"),
        (NEON, "arm", r"srshl\s+v\d+\.4s"),
        (NEON, "high", r"smull2?\s+v\d+\.2d"),
        (NEON, "exact", r"smull2?\s+v\d+\.2d"),
        (NEON, "int32", r"\bm(ul|la)\s+v\d+\.4s"),
        (NEON, "shift", r"sshl\s+v\d+\.4s"),
        (VSX, "high", r"vmulhsw"),
        (VSX, "exact", r"vmul[eo]sw|vmulld"),
        (VSX, "int32", r"vmuluwm"),
        (VSX, "shift", r"vsraw"),
    ],
)
def test_every_way_is_vectorised_on_every_target(target, how, wanted):
    assembly = compile_module(function(how, target.lanes("int32"), 64, False), target).inspect_source("asm")
    assert re.search(wanted, assembly), assembly


def test_choices_keep_to_what_is_known_of_the_scales():
    conv = QConv2d(1, 4, 4, 4, 4, 1, 1)
    assert requantize.choices(conv, AVX2) == ["exact", "int32"]
    assert requantize.choices(dataclasses.replace(conv, scale="small"), NEON) == ["high", "arm", "int32"]
    assert requantize.choices(dataclasses.replace(conv, scale="small"), AVX2) == ["high"]
    assert requantize.choices(dataclasses.replace(conv, scale="power"), AVX2) == ["shift"]
    assert requantize.choices(dataclasses.replace(conv, out_dtype="int32"), AVX2) == ["none"]
    assert [how for how in ("exact", "high", "shift") if requantize.why_inexact(how)] == []
    assert requantize.why_inexact("arm")
