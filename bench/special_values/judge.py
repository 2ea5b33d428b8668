"""Whether two results are the same, special values among them."""

from __future__ import annotations

import numpy as np

from bench.special_values.values import Array

ALLOWED = {2: 1e-2, 4: 1e-4, 8: 1e-6}
"""The difference that rounding explains, by the bytes of a float."""
WINOGRAD = 10
"""Winograd rounds this many times as much."""
LARGE = 10
"""Larger numbers than this add their rounding to a whole tile of Winograd, in proportion to their size."""
NEAR = 8
"""Pixels around a special value into which the largest tile of Winograd spreads it."""


def difference(ours: Array, right: Array, asked: Array, times: float = 1) -> str:
    """How ``ours`` differs where it is ``asked``; empty where it does not.

    A sum that is nearly too large for its type may be infinite: that depends on its order.
    """
    if (ours.dtype, ours.shape) != (right.dtype, right.shape):
        return f"{ours.dtype}{list(ours.shape)}, not {right.dtype}{list(right.shape)}"
    if ours.dtype.kind != "f":
        wrong = ours != right
    else:
        one, other = np.float64(ours), np.float64(right)
        allowed = times * ALLOWED[ours.dtype.itemsize]
        high = np.float64(np.finfo(ours.dtype).max) / 8
        with np.errstate(all="ignore"):
            same = np.isclose(one, other, allowed, allowed, equal_nan=True)
            large = (np.abs(one) > high) & (np.abs(other) > high) & (np.sign(one) == np.sign(other))
        # Away from a value that spreads, and where the right result is no number: that must not vanish.
        wrong = ~(same | large) & (asked | (np.isnan(other) & ~np.isnan(one)))
    places = np.flatnonzero(wrong)[:3]
    if not places.size:
        return ""
    return f"{wrong.sum()} of {wrong.size}: {ours.flat[places]}, not {right.flat[places]}"


def far_from(data: Array, shape: tuple[int, ...]) -> Array:
    """The results whose place on the image is far from all special values of ``data``."""
    with np.errstate(all="ignore"):
        odd = ~np.isfinite(data) | (np.abs(data) > LARGE)
    far = np.ones(shape, bool)
    extents, found = data.shape[2:], shape[2 : data.ndim]
    for at in np.argwhere(odd):
        near = tuple(
            slice(max(0, int((place - NEAR) * new / old)), int((place + NEAR + 1) * new / old) + 1)
            for place, old, new in zip(at[2:], extents, found, strict=True)
        )
        far[(at[0], slice(None), *near)] = False
    return far
