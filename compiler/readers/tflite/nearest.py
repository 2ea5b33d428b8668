"""Which pixels RESIZE_NEAREST_NEIGHBOR takes, as LiteRT has it: in float32, ties and all."""

from __future__ import annotations

import numpy as np

from compiler.readers.tflite.file import Array

MARGIN = 1e-3
"""How far from a tie a place must be for every way of computing it to give the same pixel."""


def taken(before: int, after: int, align: bool, half: bool) -> Array:
    """The element of ``before`` that each of ``after`` is."""
    scale = _scale(before, after, align)
    places = (np.arange(after, dtype=np.float32) + np.float32(0.5 if half else 0)) * scale
    whole = np.floor(places + np.float32(0.5)) if align else np.floor(places)
    return np.asarray(whole.clip(0, before - 1).astype(np.int64))


def is_resize(before: int, after: int, align: bool, half: bool) -> bool:
    """Whether ONNX's Resize takes the same, however a library rounds its places."""
    if align and half:
        return False
    if align:
        places = np.arange(after) * (before - 1) / max(after - 1, 1)
        nearest, exact = np.floor(places + 0.5), True  # a product of integers and one division
        edges = places + 0.5
    else:
        edges = (np.arange(after) + (0.5 if half else 0)) * before / after
        nearest, exact = np.floor(edges), after % before == 0  # else onnxruntime divides by a rounded scale
    far = np.abs(edges - np.round(edges)) > MARGIN
    same = np.array_equal(nearest.clip(0, before - 1), taken(before, after, align, half))
    return same and (exact or bool(far.all()))


def _scale(before: int, after: int, align: bool) -> np.float32:
    if align and after > 1:
        return np.float32(before - 1) / np.float32(after - 1)
    return np.float32(before) / np.float32(after)
