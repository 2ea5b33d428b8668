"""How far an array is from what it should be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def differs_in_kind(value: Array, defined: Array) -> str:
    """How type or shape differ from what they should be; empty when they do not."""
    if value.dtype != defined.dtype:
        return f"is {value.dtype} and should be {defined.dtype}"
    if value.shape != defined.shape:
        return f"has the shape {list(value.shape)} and should have {list(defined.shape)}"
    return ""


def error_of(value: Array, defined: Array, least: float = 0.0) -> float:
    """The largest difference relative to the largest value, or to ``least`` where that is larger; 1 where one
    is a number and the other is none.

    Of integers of 32 bits and more it is the share that differs: an index is right or wrong.
    """
    if value.size == 0:
        return 0.0
    if value.dtype.kind not in "fiu" or (value.dtype.kind in "iu" and value.dtype.itemsize > 2):
        return float(np.mean(value != defined))
    ours, theirs = value.astype(np.float64), defined.astype(np.float64)
    finite = np.isfinite(theirs)
    if (
        not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True)
        or not np.isfinite(ours[finite]).all()
    ):
        return 1.0
    scale = float(np.abs(theirs[finite]).max(initial=least))
    difference = float(np.abs(ours[finite] - theirs[finite]).max(initial=0.0))
    return difference / scale if scale else min(difference, 1.0)
