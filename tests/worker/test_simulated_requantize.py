"""Inexact ways to scale sums on simulated Arm boards: each does what its model does, to the last bit."""

import dataclasses
import random

import numpy as np
import pytest
from requantize_models import MODELS

from kernels import registry
from kernels.int8.reference import random_inputs, reference
from kernels.numerics import Numerics
from kernels.target import CATALOGUE
from kernels.workload.qconv2d import QConv2d
from worker.build.build import ENTRY

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(600)]

ODD = {"pad": (1, 0, 2, 1), "weight_range": (-127, 127), "data_zero": 9, "out_zero": 4}
CONVS = [
    QConv2d(1, 17, 19, 10, 13, 3, 3, **ODD),
    QConv2d(1, 19, 17, 19, 19, 3, 3, groups=19, per_channel=False, **ODD),
    QConv2d(1, 19, 17, 24, 12, 3, 3, groups=3, out_dtype="int8", clamp=(-100, 90), **ODD),
]
WAYS = [("rpi4-sim", "any", "arm"), ("rpi4-sim", "small", "arm"), ("rpi4-sim", "any", "int32")]


def _inputs(conv, way):
    """Random ones; for ``arm`` a quantum is few units of the sum, where its roundings meet."""
    rng = np.random.default_rng(5)
    data, weights, bias, multiplier, shift = random_inputs(conv, rng)
    if way == "int32":
        return [data, weights, bias, multiplier, shift]
    return [data, np.sign(weights), bias // 128, multiplier, rng.integers(2, 5, shift.shape, np.int32)]


@pytest.mark.parametrize(("model", "scale", "way"), [*WAYS, ("rpi4-32-sim", "any", "int32")])
@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_candidates_are_their_ways_model_and_at_most_one_off(
    simulated_boards, run_on, conv, model, scale, way
):
    board = simulated_boards[model]
    target, conv = CATALOGUE[board.target], dataclasses.replace(conv, scale=scale)
    inputs = _inputs(conv, way)
    plain = dataclasses.replace(conv, out_dtype="int32", out_zero=0, clamp=None, scale="any")
    sums, scales = reference(plain, inputs[:3]), [array.astype(np.int64) for array in inputs[3:]]
    expected = (MODELS[way](sums.astype(np.int64), *scales) + conv.out_zero).clip(*conv.out_range)
    off = np.abs(expected - reference(conv, inputs))
    assert off.max() == 1  # else nothing is told apart
    for family in registry.search_space(conv, target, Numerics.RELAXED).spaces:
        assert way in family.knobs["requant"]
        points = dataclasses.replace(family, knobs={**family.knobs, "requant": [way]})
        config = points.sample(random.Random(conv.key))
        kernel = registry.kernel(config.kernel)
        function = kernel.build(conv, config, target, 1, ENTRY)
        constants = kernel.constants(conv, config, target, inputs)
        out = run_on(board, function, inputs[0], *constants, np.zeros(conv.out_shape, conv.out_dtype))
        assert np.array_equal(out, expected), config
        assert kernel.tolerance_of(conv, config) == 1
