"""Products added in int16: which weights are added together, and exact results at the ends of the range."""

import dataclasses

import numpy as np
import pytest
from qguarded import quanta_off_of

from kernels.int8.exchange import choose
from kernels.int8.reference import random_inputs
from kernels.int8.x86.direct.kernel import QuantizedDirect
from kernels.int8.x86.direct.short_sums import MOST, UNIT, ShortSums
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d

KERNEL, AVX2 = QuantizedDirect(), CATALOGUE["x86-avx2"]
NARROW = (-64, 64)


def point(multiply, **knobs):
    usual = {"block": "8x1", "rows": 5, "order": "ws", "prefetch": 1, "requant": "none"}
    return Config.of("qdirect", multiply=multiply, **usual | knobs)


@pytest.mark.parametrize("parts", [3, 4])
@pytest.mark.parametrize("deviation", [8, 19, 30])
def test_steps_have_every_unit_once_and_fit_if_they_say_so(parts, deviation):
    rng = np.random.default_rng(parts)
    sizes = np.abs(rng.normal(0, deviation, (5, 30 * parts, 32))).astype(np.int16) * 2
    sizes[4, :, 7] = MOST  # a filter with which nothing fits
    chosen, fits = choose(sizes, parts, MOST)
    assert np.array_equal(np.sort(chosen.reshape(5, -1), 1), np.tile(np.arange(30 * parts), (5, 1)))
    totals = np.stack([sizes[tile][chosen[tile]].sum(1) for tile in range(5)])
    assert np.array_equal(fits, (totals <= MOST).all(2))
    assert not fits[4].any()


@pytest.mark.parametrize(("parts", "channels"), [(3, 128), (4, 512)])
def test_weights_as_networks_have_them_fit(parts, channels):
    """Normal weights, one scale a filter, 7 bits: hardly any step is left once units were exchanged."""
    real = np.random.default_rng(0).normal(0, 1, (16, 8, channels // UNIT, UNIT))
    weights = np.rint(64 * real / np.abs(real).max((2, 3), keepdims=True))
    short = ShortSums(parts, channels // UNIT, 8)
    packed = short.pack(weights, np.arange(0, channels, UNIT)).reshape(16, -1)
    fitting = np.ascontiguousarray(packed[:, :4]).view(np.int32).sum()
    assert fitting / (16 * short.steps) > 0.99


@pytest.mark.parametrize("data_dtype", ["uint8", "int8"])
@pytest.mark.parametrize(("multiply", "parts"), [("sixes", 3), ("eights", 4)])
def test_sums_that_just_fit_do_not_overflow(multiply, parts, data_dtype):
    """Weights of one sign add up to just 128 in every lane of a step, the data are at the ends."""
    conv = QConv2d(
        1, 5, 5, 8 * parts * UNIT, 16, 1, 1, data_dtype=data_dtype, out_dtype="int32", weight_range=NARROW
    )
    rng = np.random.default_rng(1)
    data, weights, bias = random_inputs(conv, rng)
    lanes = np.zeros((16, 8, 2, 2 * parts), np.int8)  # (filter, step, lane of a step, product)
    lanes[..., :2] = 64 * rng.choice([-1, 1], (16, 8, 2, 1))
    lanes[..., 2:4] = -lanes[..., :2]
    lanes = rng.permuted(lanes, axis=3).reshape(16, 8, 2, parts, 2).transpose(0, 1, 3, 2, 4)
    weights[0, 0] = lanes.reshape(16, -1).T
    low, high = (-128, 127) if data_dtype == "int8" else (0, 255)
    data[...] = rng.choice([low, high], data.shape)
    # Some windows whose data are high just where a filter's weights are above zero.
    for filter_, row in enumerate(data[0, :3].reshape(-1, data.shape[3])):
        row[...] = np.where(weights[0, 0, :, filter_] > 0, high, low)
    inputs = [data, weights, bias]
    config = point(multiply)
    packed = KERNEL.constants(conv, config, AVX2, inputs)[0].reshape(2, -1)
    assert np.array_equal(np.ascontiguousarray(packed[:, :4]).view(np.int32), [[8], [8]])
    assert quanta_off_of(KERNEL, conv, config, AVX2, inputs) == 0


@pytest.mark.parametrize("multiply", ["sixes", "eights"])
@pytest.mark.parametrize(
    "conv",
    [
        QConv2d(1, 5, 5, 200, 24, 1, 1),
        QConv2d(1, 9, 10, 20, 40, 3, 3, (2, 2), (1, 0, 1, 2), (1, 2), data_zero=255),
        QConv2d(2, 10, 5, 36, 32, 3, 2, (2, 1), (0, 1, 0, 0), groups=2, data_dtype="int8", data_zero=-128),
        QConv2d(1, 11, 11, 3, 20, 7, 7, (2, 2), (3, 3, 3, 3), data_zero=7, weight_zero=0),
    ],
    ids=str,
)
def test_steps_of_both_kinds_are_exact(conv, multiply):
    """Small weights, whose steps fit, and filters with nothing but ends, with which none does."""
    conv = dataclasses.replace(conv, weight_range=NARROW, out_dtype="int32")
    rng = np.random.default_rng(2)
    inputs = random_inputs(conv, rng)
    inputs[1][...] = np.rint(rng.normal(0, 22, conv.weight_shape).clip(*NARROW))
    inputs[1][..., 10:13] = [-64, 64, 64]
    if conv.in_c > 100:
        # Some steps that nothing makes fit, among others that do.
        inputs[1][0, 0, :, :8] //= 4
        inputs[1][0, 0, :24, :8] = 64
        packed = KERNEL.constants(conv, point(multiply), AVX2, inputs)[0].reshape(3, -1)
        fitting = packed[0, :4].view(np.int32)[0]
        assert 0 < fitting < ShortSums({"sixes": 3, "eights": 4}[multiply], 50, 8).steps
    for block in ("6x1", "8x1"):
        config = point(multiply, block=block, rows=min(3, conv.out_h))
        assert quanta_off_of(KERNEL, conv, config, AVX2, inputs) == 0
