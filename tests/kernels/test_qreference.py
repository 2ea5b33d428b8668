"""Quantized workloads: their canonical form, their reference, and what is refused."""

import dataclasses
import json
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from kernels.int8 import constants as qconstants
from kernels.int8.reference import fixed_point, multiply
from kernels.reference import max_error, random_inputs, reference
from kernels.workload.base import Conv2d, Epilogue, Gemm, QConv2d, from_json, to_json

ODD = QConv2d(
    2,
    7,
    6,
    6,
    4,
    3,
    2,
    (2, 1),
    (1, 0, 2, 1),
    (1, 2),
    2,
    "int8",
    "uint8",
    "int8",
    -3,
    130,
    5,
    clamp=(-100, 90),
)


def by_hand(conv, data, weights, bias, multiplier, shift):
    """Every output by loops over Python integers and fractions."""
    out = np.zeros(conv.out_shape, np.int64)
    depth, filters = conv.in_c // conv.groups, conv.out_c // conv.groups
    for n, y, x, k in np.ndindex(*conv.out_shape):
        total = int(bias[k])
        for r, s, c in np.ndindex(conv.kh, conv.kw, depth):
            row = y * conv.stride[0] + r * conv.dilation[0] - conv.pad[0]
            column = x * conv.stride[1] + s * conv.dilation[1] - conv.pad[1]
            if 0 <= row < conv.in_h and 0 <= column < conv.in_w:
                value = int(data[n, row, column, k // filters * depth + c]) - conv.data_zero
                total += value * (int(weights[r, s, c, k]) - conv.weight_zero)
        scaled = Fraction(total * int(multiplier[k])) / Fraction(2) ** (31 + int(shift[k]))
        out[n, y, x, k] = min(max(floor(scaled + Fraction(1, 2)) + conv.out_zero, -100), 90)
    return out


def test_reference_is_what_the_definition_says():
    inputs = random_inputs(ODD, np.random.default_rng(3))
    expected = reference(ODD, inputs)
    assert expected.dtype == np.int8
    assert len(np.unique(expected)) > 20
    assert max_error(by_hand(ODD, *inputs), expected) == 0


def test_int32_output_is_the_sum_itself():
    conv = dataclasses.replace(ODD, out_dtype="int32", out_zero=0, clamp=None)
    data, weights, bias = random_inputs(conv, np.random.default_rng(3))
    ones = [np.full(4, 1 << 30, np.int32), np.full(4, -1, np.int32)]
    wide = np.clip(reference(conv, [data, weights, bias]), -105, 85) + 5
    assert max_error(by_hand(ODD, data, weights, bias, *ones), wide) == 0


def test_folding_zero_points_into_the_bias_changes_nothing():
    """With ``offset`` added to the data and its zero, as code for other types does."""
    conv = dataclasses.replace(ODD, out_dtype="int32", out_zero=0, clamp=None)
    data, weights, bias = random_inputs(conv, np.random.default_rng(4))
    expected = reference(conv, [data, weights, bias])
    for offset in (0, 128):
        folded = qconstants.folded_bias(conv, weights, bias, offset)
        shifted = np.pad(
            data.astype(int) + offset, ((0, 0), (1, 2), (0, 1), (0, 0)), constant_values=-3 + offset
        )
        plain = dataclasses.replace(conv, in_h=10, in_w=7, pad=(0,) * 4, data_zero=0, data_dtype="uint8")
        if offset:
            got = reference(plain, [shifted.astype(np.uint8), weights, folded])
            assert max_error(got, expected) == 0


def test_fixed_point_is_the_nearest_and_multiplies_as_defined():
    scales = np.array([0.0, 1e-12, 0.25, 0.5, 1.0, 3.7, 0.000123, 1 - 2.0**-40])
    multiplier, shift = fixed_point(scales)
    for scale, m, s in zip(scales[2:], multiplier[2:], shift[2:], strict=True):
        assert m >= 1 << 30
        assert abs(float(m) * 2.0 ** (-31 - s) - scale) <= scale * 2.0**-31
    assert multiplier[:2].tolist() == [0, 0]
    values = np.array([-3, -1, 1, 3, 5, -5], np.int64)
    assert multiply(values, np.int32(1 << 30), np.int32(0)).tolist() == [-1, 0, 1, 2, 3, -2]
    with pytest.raises(ValueError, match="scales"):
        fixed_point(np.array([-0.5]))


def test_names_of_float_workloads_are_what_they_always_were():
    assert Conv2d(1, 3, 8, 8, 4, 3, 3, epilogue=Epilogue(True, True, (0, 6))).key == "e2618e947d452456"
    assert Gemm(1, 2, 3).key == "f4ac7cd03997021c"


def test_json_round_trip_and_one_spelling():
    assert from_json(json.loads(json.dumps(to_json(ODD)))) == ODD
    whole = QConv2d(1, 8, 8, 4, 4, 1, 1, clamp=(0, 255), weight_range=(-128, 127))
    assert whole.key == QConv2d(1, 8, 8, 4, 4, 1, 1).key
    assert whole.key != QConv2d(1, 8, 8, 4, 4, 1, 1, weight_range=(-64, 64)).key


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data_zero": 300}, "data_zero=300 is outside -128 to 127"),
        ({"clamp": (3, 2)}, "clamp 3 to 2 is empty"),
        ({"out_dtype": "int32"}, "int32 output takes no clamp"),
        ({"weight_dtype": "int4"}, "weight_dtype"),
        ({"scale": "tiny"}, "scale"),
    ],
)
def test_nonsense_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        from_json(to_json(ODD) | change)


def test_constants_that_the_workload_excludes_are_refused():
    conv = QConv2d(1, 4, 4, 8, 8, 1, 1, weight_range=(-64, 64), scale="small")
    _, weights, _, multiplier, shift = random_inputs(conv, np.random.default_rng(0))
    weights[0, 0, 0, :2] = -64, 64
    qconstants.check_weights(conv, weights)
    qconstants.check_scale(conv, multiplier, shift)
    assert qconstants.weight_range_of(weights) == (-64, 64)
    assert qconstants.scale_of(multiplier, shift) == "small"
    weights[0, 0, 3, 3] = 65
    assert qconstants.weight_range_of(weights) == (-127, 127)
    with pytest.raises(ValueError, match="from -64 to 64, got -64 to 65"):
        qconstants.check_weights(conv, weights)
    shift[2] = 1
    with pytest.raises(ValueError, match="scales that are small"):
        qconstants.check_scale(conv, multiplier, shift)
