"""The constants of the depthwise convolution of bytes, one a lane, in the order that unpacking makes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.int8.constants import SMALL_SHIFT, check_scale, folded_bias
from kernels.int8.x86.depthwise.plan import HIGH, Plan
from kernels.int8.x86.finish import CROSSED
from kernels.kernel import Array


def interleaved(plan: Plan, weights: Array) -> Array:
    """[vector][lower, upper half], each: [product][lane][tap of the product] as bytes, then what is added
    to each centered group, int16."""
    taps, channels = plan.taps, plan.channels
    by_tap = weights.reshape(plan.conv.kh, plan.conv.kw, plan.conv.out_c)
    factors = np.array([taps.weights(product, by_tap) for product in taps.products])
    bytes_ = channels.spread(factors).astype(np.int8)  # product, tap, vector, lane
    added = channels.spread(-_middles(plan, by_tap)).astype(np.int16)  # group, vector, lane
    parts: list[Array] = []
    for vector in range(channels.vectors):
        for half in channels.halves:
            some = bytes_[:, :, vector, half].transpose(0, 2, 1)
            parts.append(np.ascontiguousarray(some).reshape(-1).view(np.int16))
            parts.append(added[:, vector, half].reshape(-1))
    return np.concatenate(parts)


def constants(plan: Plan, inputs: Sequence[Array]) -> list[Array]:
    """Packed weights; bias, multiplier and shift of every lane.

    The bias takes the middles of the groups of taps back.
    """
    conv = plan.conv
    weights, bias, *scale = inputs[1:]
    packed = plan.pack(weights)
    by_tap = weights.reshape(conv.kh, conv.kw, conv.out_c).astype(np.int32) - conv.weight_zero
    folded = folded_bias(conv, weights, bias, plan.offset)
    # In the middle of what sums can be, so it fits as they do.
    filled = [_filled(plan, folded + _middles(plan, by_tap).sum(0).astype(np.int32))]
    if scale:
        check_scale(conv, *scale)
        filled += _scales(plan, *(np.broadcast_to(each, conv.out_c) for each in scale))
    return [packed, *(each.reshape(-1) for each in filled)]


def _middles(plan: Plan, by_tap: Array) -> Array:
    """The middle of what each centered group adds up to, (groups, channels), of (kh, kw, channels)."""
    taps, ends = plan.taps, []
    for at in taps.centered:
        weights = np.concatenate([taps.weights(product, by_tap) for product in taps.groups[at]])
        ends.append(255 * np.array([np.minimum(weights, 0).sum(0), np.maximum(weights, 0).sum(0)]))
    middles: Array = np.array(ends, np.int64).reshape(-1, 2, plan.conv.out_c).sum(1) // 2
    return middles


def _filled(plan: Plan, values: Array) -> Array:
    """int32, one a channel, as [vector][kind][lane as unpacked], other kinds 0."""
    rows = plan.channels.spread(values)[:, plan.channels.unpacked]
    return np.stack([rows] + [np.zeros_like(rows)] * (plan.kinds - 1), axis=1)


def _scales(plan: Plan, multiplier: Array, shift: Array) -> tuple[Array, Array]:
    """Both as ``_filled`` makes them. With ``high`` the other kinds are the multipliers one lane lower, and
    what int16 lanes are multiplied by, with 15 bits behind the point.

    The upper half of the product by a multiplier has ``shift - 1`` bits behind the point. All but seven
    are shifted out; then a result that fits a byte and the bits that decide how it is rounded fit int16.
    """
    if plan.knobs.requant != HIGH:
        return _filled(plan, multiplier), _filled(plan, shift)
    lanes = plan.lanes
    multipliers, shifts = _filled(plan, multiplier), _filled(plan, np.maximum(shift, SMALL_SHIFT))
    multipliers[:, 1, :-1] = multipliers[:, 0, 1:]
    crossed = np.arange(lanes) // 4 * 4 + np.tile(CROSSED, lanes // 4)
    shifts[:, 0] = shifts[:, 0, crossed]
    factors = (1 << 16 - np.minimum(shifts[:, 0], 8)).astype(np.int16)
    # vpackssdw takes four lanes of each of two quarters in turn.
    factors = factors.reshape(-1, 2, 2, lanes // 16, 4).swapaxes(2, 3).reshape(len(factors), -1)
    shifts[:, 1, : lanes // 2] = np.ascontiguousarray(factors).view(np.int32)
    shifts[:, 0] = np.maximum(shifts[:, 0] - 8, 0)
    return multipliers, shifts
