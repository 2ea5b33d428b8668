"""Constants of a quantized workload: what holds for them, and that what code relies on does hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.workload.qconv2d import LIMITS, QConv2d, Range, Scale

Array = npt.NDArray[Any]
RANGES: tuple[Range, ...] = ((-64, 64), (-127, 127))
"""Ranges of int8 weights worth telling apart: sums of two products by uint8 fit int16; by int8 they do."""
SMALL_SHIFT = 2
"""From which shift on a scale is "small"."""


def weight_range_of(weights: Array) -> Range | None:
    """The smallest of ``RANGES`` that ``weights`` keep to, or None; for ``QConv2d.weight_range``."""
    if weights.dtype != np.int8:
        return None
    low, high = int(weights.min()), int(weights.max())
    return next((r for r in RANGES if r[0] <= low and high <= r[1]), None)


def scale_of(multiplier: Array, shift: Array) -> Scale:
    """The strongest ``QConv2d.scale`` that holds for these constants."""
    return next(scale for scale in ("power", "small", "any") if _holds(scale, multiplier, shift))


def _holds(scale: Scale, multiplier: Array, shift: Array) -> bool:
    if scale == "power":
        return bool(np.all(multiplier == 1 << 30) and np.all((shift >= 0) & (shift <= 30)))
    return scale == "any" or bool(np.all(shift >= SMALL_SHIFT))


def check_weights(conv: QConv2d, weights: Array) -> None:
    """Raises ValueError unless ``weights`` are what the workload says of them."""
    if weights.shape != conv.weight_shape or weights.dtype.name != conv.weight_dtype:
        raise ValueError(
            f"{conv} takes weights {conv.weight_shape} {conv.weight_dtype}, "
            f"got {weights.shape} {weights.dtype.name}"
        )
    low, high = conv.weight_range or LIMITS[conv.weight_dtype]
    if weights.min() < low or weights.max() > high:
        raise ValueError(
            f"{conv} is for weights from {low} to {high}, got {weights.min()} to {weights.max()}; "
            "describe the workload with weight_range_of(weights)"
        )


def check_scale(conv: QConv2d, multiplier: Array, shift: Array) -> None:
    """Raises ValueError unless the constants are in range and what the workload says of them."""
    for name, array in (("multiplier", multiplier), ("shift", shift)):
        if array.shape != (conv.scale_length,) or array.dtype != np.int32:
            raise ValueError(
                f"{conv} takes {conv.scale_length} int32 as {name}, got {array.shape} {array.dtype}"
            )
    if np.any((multiplier != 0) & (multiplier < 1 << 30)) or np.any((shift < -31) | (shift > 31)):
        # Smaller ones would leave ``int32`` of requantize.py too few bits.
        raise ValueError(f"{conv}: multipliers must be 0 or from 2^30 on, shifts from -31 to 31")
    if not _holds(conv.scale, multiplier, shift):
        raise ValueError(f"{conv} is for scales that are {conv.scale}, got others; see scale_of")


def dynamic_start(conv: QConv2d, weights: Array, bias: Array, offset: int = 0) -> tuple[Array, Array]:
    """int32 ``b`` and ``t`` of each filter: with ``b - zero * t + sum of (data + offset) * weight`` a sum is
    that of ``(data - zero) * weight`` and the bias, whatever ``zero`` comes with the data.

    Code may add these products in any order: raises ValueError where sums could leave int32 on the way.
    """
    centered = weights.astype(np.int16) - np.int16(conv.weight_zero)
    total, size = (each.sum(axis=(0, 1, 2), dtype=np.int64) for each in (centered, np.abs(centered)))
    # Where the data's sums take off the zero point of the weights, they and the products go either way.
    size = 3 * size + 2 * abs(conv.weight_zero) * conv.in_c
    if int((np.abs(bias.astype(np.int64)) + 255 * size).max()) > LIMITS["int32"][1]:
        raise ValueError(f"{conv}: by these weights and biases sums may leave 32 bits")
    folded = bias.astype(np.int64) - offset * total
    return folded.astype(np.int32), total.astype(np.int32)


def folded_bias(conv: QConv2d, weights: Array, bias: Array, offset: int = 0) -> Array:
    """int32 ``b`` with ``b + sum of (data + offset) * (weight - weight_zero)`` equal to the workload's sum.

    The sums over padding are right when it holds ``data_zero`` (+ ``offset``). Code may add these products to
    each other and to ``b`` in any order: raises ValueError where some data's would leave int32 on the way,
    which LLVM leaves undefined.
    """
    centered = weights.astype(np.int16) - np.int16(conv.weight_zero)
    total, size = (each.sum(axis=(0, 1, 2), dtype=np.int64) for each in (centered, np.abs(centered)))
    folded: Array = bias.astype(np.int64) - (conv.data_zero + offset) * total
    low, high = (limit + offset for limit in LIMITS[conv.data_dtype])
    positive, negative = (size + total) // 2, (size - total) // 2
    # Of any of the products: at most all that can be positive, at least all that can be negative.
    most, least = high * positive - low * negative, low * positive - high * negative
    for end in (most, least, folded, folded + most, folded + least):
        if end.min() < LIMITS["int32"][0] or end.max() > LIMITS["int32"][1]:
            worst = end[np.abs(end).argmax()]
            raise ValueError(f"{conv}: by these weights and biases sums may leave 32 bits, as {worst} does")
    return folded.astype(np.int32)
