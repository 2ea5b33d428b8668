"""What a quantized workload must compute, in plain numpy and int64, and random inputs for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.arithmetic import ceil_div
from kernels.workload.qconv2d import LIMITS, QConv2d

Array = npt.NDArray[Any]
Wide = npt.NDArray[np.int64]
EXTREME = 0.25
"""Share of filters and of rows of the data that are at the ends of their range throughout."""
EXTREME_RUN = 8
"""How many such filters there are beside each other, where there are enough."""
SPREADS = 6.0
"""The range of weights in standard deviations of the others: what 7 bits are to the filters of networks."""
SPREAD = 60.0
"""Standard deviation of the results in quanta: most of the range, and some that are clipped."""


def input_shapes(conv: QConv2d) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of data, weights, bias and what there is of multiplier and shift, or of unit, addend,
    step and zero."""
    scales: list[tuple[tuple[int, ...], str]] = [((conv.scale_length,), "int32")]
    floats: list[tuple[tuple[int, ...], str]] = [((conv.out_c,), "float32")]
    return [
        (conv.data_shape, conv.data_dtype),
        (conv.weight_shape, conv.weight_dtype),
        ((conv.bias_length,), "int32"),
        *scales * (2 if conv.scale_length else 0),
        *[*floats * 2, ((), "float32"), ((), conv.data_dtype)] * conv.is_dynamic,
    ]


def random_inputs(conv: QConv2d, rng: np.random.Generator) -> list[Array]:
    """Data, weights, bias and the rest of ``input_shapes``, as ``reference`` takes them.

    Weights and scales keep to what the workload says of them. Some filters and some rows of the data have
    nothing but the ends of their range, so that sums that do not fit somewhere come out wrong. The others are
    uniform data and normal weights, as networks have them: time may depend on how large weights are.
    """
    low, high = LIMITS[conv.data_dtype]
    uniform = rng.integers(low, high + 1, conv.data_shape)
    data = _with_extremes(uniform, (low, high), rng, axis=1).astype(conv.data_dtype)
    low, high = conv.weight_range or LIMITS[conv.weight_dtype]
    usual = rng.normal((low + high) / 2, (high - low) / SPREADS, conv.weight_shape)
    rounded = np.rint(usual).clip(low, high).astype(np.int64)
    # Neighbours together, as kernels compute some filters at a time.
    run = min(EXTREME_RUN, ceil_div(conv.out_c, EXTREME_RUN))
    weights = _with_extremes(rounded, (low, high), rng, axis=3, run=run).astype(conv.weight_dtype)
    terms = conv.kh * conv.kw * conv.in_c // conv.groups
    # 74 is the deviation of a uniform byte; weights have that of uniform ones, extremes included.
    deviation = 74.0 * (high - low) / 3.46 * terms**0.5 + 1
    bias = rng.normal(0, deviation, conv.out_c).clip(-(1 << 28), 1 << 28).astype(np.int32)
    if conv.is_dynamic:
        unit = rng.uniform(0.5, 1.5, conv.out_c).astype(np.float32) / np.float32(deviation)
        addend = rng.standard_normal(conv.out_c, np.float32)
        step = np.array(rng.uniform(0.5, 1.5), np.float32)
        zero = np.array(rng.integers(*LIMITS[conv.data_dtype], endpoint=True), conv.data_dtype)
        return [data, weights, bias, unit, addend, step, zero]
    if not conv.scale_length:
        return [data, weights, bias]
    scales = rng.uniform(0.3, 1.6, conv.scale_length) * SPREAD / deviation
    if conv.scale == "power":
        exponents = np.minimum(np.floor(np.log2(scales)), -1)
        scales = 2.0**exponents
    elif conv.scale == "small":
        scales = np.minimum(scales, 0.249)
    return [data, weights, bias, *fixed_point(scales)]


def fixed_point(scales: npt.NDArray[np.float64]) -> tuple[Array, Array]:
    """Multiplier in [2^30, 2^31) and right shift, both int32, for which multiplier * 2^(-31 - shift) is
    nearest to each scale; zero multiplies by zero.

    Raises ValueError for scales that are negative, not finite, or from 2^31 on. Those below 2^-32 become 0.
    """
    scales = np.asarray(scales, np.float64)
    if not np.all(np.isfinite(scales)) or np.any(scales < 0) or np.any(scales >= 2.0**31):
        raise ValueError("scales must be finite, not negative, and below 2^31")
    fraction, exponent = np.frexp(scales)
    multiplier = np.floor(fraction * 2.0**31 + 0.5).astype(np.int64)
    exponent = exponent.astype(np.int64) + (multiplier == 1 << 31)
    multiplier = np.where(multiplier == 1 << 31, 1 << 30, multiplier)
    tiny = -exponent > 31
    multiplier[tiny], exponent[tiny] = 0, 0
    return multiplier.astype(np.int32), (-exponent).astype(np.int32)


def multiply(value: Wide, multiplier: Array, shift: Array) -> Wide:
    """``round(value * multiplier * 2^(-31 - shift))``, ties rounded up; shifts are at least -31."""
    total = 31 + np.asarray(shift, np.int64)
    product = value * np.asarray(multiplier, np.int64)
    half = np.where(total > 0, np.left_shift(np.int64(1), np.maximum(total - 1, 0)), 0)
    return (product + half) >> total


def reference(conv: QConv2d, inputs: Sequence[Array]) -> Array:
    """The result, of ``conv.out_shape`` and ``conv.out_dtype``, for inputs as ``random_inputs`` orders them.

    Raises ValueError when an input is missing or has the wrong shape or type.
    """
    expected = input_shapes(conv)
    given = [(array.shape, array.dtype.name) for array in inputs]
    if given != expected:
        raise ValueError(f"{conv} takes inputs of {expected}, got {given}")
    data, weights, bias = (array.astype(np.int64) for array in inputs[:3])
    data_zero = inputs[6].astype(np.int64) if conv.is_dynamic else conv.data_zero
    sums = _sums(conv, data - data_zero, weights - conv.weight_zero) + bias
    if conv.is_dynamic:
        unit, addend, step = (each.astype(np.float64) for each in inputs[3:6])
        return (sums * (step * unit) + addend).astype(np.float32)
    if conv.out_dtype == "int32":
        return sums.astype(np.int32)
    scaled = multiply(sums, inputs[3], inputs[4]) + conv.out_zero
    return scaled.clip(*conv.out_range).astype(conv.out_dtype)


def _sums(conv: QConv2d, data: Wide, weights: Wide) -> Wide:
    """One matrix product a tap; in float64, which is exact for sums below 2^53 and far faster than int64."""
    top, left, bottom, right = conv.pad
    padded = np.pad(data, ((0, 0), (top, bottom), (left, right), (0, 0))).astype(np.float64)
    depth, filters = conv.in_c // conv.groups, conv.out_c // conv.groups
    total = np.zeros((conv.groups, conv.n * conv.out_h * conv.out_w, filters))
    for row in range(conv.kh):
        for column in range(conv.kw):
            first_row, first_column = row * conv.dilation[0], column * conv.dilation[1]
            patch = padded[:, first_row :: conv.stride[0], first_column :: conv.stride[1]]
            patch = patch[:, : conv.out_h, : conv.out_w].reshape(-1, conv.groups, depth)
            tap = weights[row, column].reshape(depth, conv.groups, filters).astype(np.float64)
            total += np.matmul(patch.transpose(1, 0, 2), tap.transpose(1, 0, 2))
    return total.astype(np.int64).transpose(1, 0, 2).reshape(conv.out_shape)


def _with_extremes(
    values: Wide, limits: tuple[int, int], rng: np.random.Generator, axis: int, run: int = 1
) -> Wide:
    """``values``, but along ``axis`` some are at an end of the range throughout, ``run`` side by side."""
    lines = [extent if number == axis else 1 for number, extent in enumerate(values.shape)]
    extreme = np.repeat(rng.random(ceil_div(lines[axis], run)) < EXTREME, run)[: lines[axis]]
    result: Wide = np.where(extreme.reshape(lines), rng.choice(list(limits), lines), values)
    return result
