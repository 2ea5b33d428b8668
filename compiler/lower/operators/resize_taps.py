"""Which elements of an axis, and how much of each, make an element of the axis resized."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

TIE = float(np.float32(1e-6))
"""How far from the middle of two elements a place may lie and be a tie of onnxruntime's."""


@dataclass(frozen=True)
class Line:
    """One axis: extents before and after, how much larger it gets, and the part of it that is read."""

    before: int
    after: int
    scale: float
    part: tuple[float, float]


@dataclass(frozen=True)
class Taps:
    """A row of indices and weights for each element of the result along ``axis``.

    ``outside`` marks the elements that lie outside of the input and are no sum at all.
    """

    axis: int
    indices: Integers
    weights: Floats
    outside: npt.NDArray[np.bool_]

    @property
    def count(self) -> int:
        """How many elements are summed."""
        return len(self.indices[0])

    @property
    def repeats(self) -> int:
        """How often each element of the input stands in the result, where that is all; else 0."""
        times = max(1, len(self.indices) // (int(self.indices.max()) + 1))
        repeated = self.count == 1 and np.array_equal(
            self.indices[:, 0], np.arange(len(self.indices)) // times
        )
        return times if repeated else 0


def taps_of(line: Line, axis: int, attributes: Mapping[str, Any]) -> Taps:
    """The taps of one axis by the attributes of ONNX's Resize."""
    way = attributes.get("coordinate_transformation_mode", b"half_pixel")
    mode = attributes.get("mode", b"nearest")
    places, extent = _places(line, way), line.before
    outside = np.zeros(line.after, bool)
    if way == b"tf_crop_and_resize":
        outside = (places < 0) | (places > extent - 1)
    if mode == b"nearest":
        indices = _nearest(places, attributes.get("nearest_mode", b"round_prefer_floor"))[:, None]
        weights = np.ones(indices.shape)
    else:
        shrunk = min(line.scale, 1.0) if attributes.get("antialias", 0) else 1.0
        indices, weights = _kernel(places, mode, shrunk, attributes.get("cubic_coeff_a", -0.75))
        if attributes.get("exclude_outside", 0):
            weights *= (indices >= 0) & (indices < extent)
        weights /= weights.sum(axis=1, keepdims=True)
        used = weights.any(axis=0)
        indices, weights = indices[:, used], weights[:, used]
    return Taps(axis, indices.clip(0, extent - 1), weights, outside)


def _places(line: Line, way: bytes) -> Floats:
    """Where in the input each element lies: onnxruntime's own float32, and doubles where it has those.

    onnx leaves open how exact they are, and a tie or a whole number decides which element is read.
    """
    half, scale, extent = np.float32(0.5), np.float32(line.scale), np.float32(line.before - 1)
    at, steps = np.arange(line.after, dtype=np.float32), np.float32(max(line.after - 1, 1))
    first, last = np.float32(line.part[0]), np.float32(line.part[1])
    if way == b"align_corners":
        places = at * extent / steps
    elif way == b"asymmetric":
        places = at / scale
    elif way == b"tf_half_pixel_for_nn":
        places = (at + half) / scale
    elif way == b"tf_crop_and_resize" and line.after == 1:
        places = np.array([0.5 * float(first + last) * float(extent)], np.float32)
    elif way == b"tf_crop_and_resize":
        places = first * extent + at * (last - first) * extent / steps
    elif way == b"pytorch_half_pixel" and line.after == 1:
        places = at
    elif way == b"half_pixel_symmetric":
        kept = np.float32(line.after) / (scale * np.float32(line.before))
        offset = np.float32(line.before) * half * (np.float32(1) - kept)
        places = (float(offset) + (np.arange(line.after) + 0.5) / float(scale) - 0.5).astype(np.float32)
    else:
        places = (at + half) / scale - half
    return places.astype(np.float64)


def _nearest(places: Floats, way: bytes) -> Integers:
    below = np.floor(places)
    if way == b"floor":
        nearest = below
    elif way == b"ceil":
        nearest = np.ceil(places)
    else:
        # Between two elements as good as exactly, which float32 seldom hits.
        rest = places - below - 0.5
        tie = np.abs(rest) <= TIE
        nearest = below + np.where(tie, way == b"round_prefer_ceil", rest > 0)
    return nearest.astype(np.int64)


def _kernel(places: Floats, mode: bytes, scale: float, a: float) -> tuple[Integers, Floats]:
    """Indices around each place and their weights: a triangle or a cubic, wider where it must not alias."""
    reach = math.ceil((1 if mode == b"linear" else 2) / scale)
    indices = np.floor(places).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
    far = np.abs(indices - places[:, None]) * scale
    if mode == b"linear":
        return indices, np.clip(1 - far, 0, None)
    inner = ((a + 2) * far - (a + 3)) * far**2 + 1
    outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    return indices, np.where(far <= 1, inner, np.where(far < 2, outer, 0.0))
