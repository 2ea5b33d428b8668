"""The rows of the other tables with an axis of no extent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from one_operator import Case, Constant


def variants(row: Case) -> Iterator[Case]:
    """The same operator where one axis of an input has no extent: in it alone, in all inputs that have as
    many elements along it, and in all axes of as many elements."""
    values = [each.value if isinstance(each, Constant) else each for each in row.inputs]
    seen = set()
    for place, value in enumerate(values):
        if not isinstance(row.inputs[place], np.ndarray):
            continue
        for axis, extent in enumerate(value.shape):
            if not extent:
                continue
            for how in range(3):
                made = tuple(
                    _emptied(row, values, at, (place, axis, extent), how) for at in range(len(values))
                )
                found = replace(row, inputs=made, judge=None)
                if str(found) not in seen:
                    seen.add(str(found))
                    yield found


def _emptied(row: Case, values: list[Any], at: int, where: tuple[int, int, int], how: int) -> Any:
    """Input ``at`` of a variant."""
    given, value = row.inputs[at], values[at]
    place, axis, extent = where
    if value is None or not value.ndim:
        return given
    axes = []
    if at == place or (how == 1 and value.dtype == values[place].dtype):
        axes = [axis] if axis < value.ndim and value.shape[axis] == extent else []
    if how == 2 and (at == place or value.dtype.kind == "f"):
        axes = [each for each in range(value.ndim) if value.shape[each] == extent]
    for each in axes:
        value = value.take(range(0), each)
    return Constant(value) if isinstance(given, Constant) else value
