"""Rows that a choice put in order, matched with those of the definition: near ties may stand either way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

MOST = 2048
"""Rows out of place that are looked for; with more of them the order is another one."""
ALIKE = 1e-2
"""How far rows may be apart, of the largest value, to be the same one, and near ties from each other."""
SURE = 8
"""Rows of which a column is in order by no chance."""


def row_axis(shape: tuple[int, ...], counts: Collection[int]) -> int:
    """The axis along which a tensor has the rows of a choice: as many as one of ``counts``, else the first
    that is no batch of one."""
    fits = [axis for axis, extent in enumerate(shape) if extent in counts]
    return (fits or [axis for axis, extent in enumerate(shape) if extent != 1] or [0])[0]


def matched(
    found: Mapping[str, Array], right: Mapping[str, Array], counts: Collection[int]
) -> dict[str, Array]:
    """``found`` with its rows in the order of ``right``: tensors of the same rows are put in order together.

    A row that ``right`` does not have stays where it is.
    """
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, value in found.items():
        if value.ndim and value.size and value.shape == right[name].shape:
            groups.setdefault(value.shape[: row_axis(value.shape, counts) + 1], []).append(name)
    result = dict(found)
    for prefix, names in groups.items():
        batch, rows = int(np.prod(prefix[:-1], dtype=np.int64)), prefix[-1]
        order = np.tile(np.arange(rows), (batch, 1))
        table = [_table([each[name] for name in names], batch, rows) for each in (found, right)]
        for index in range(batch):
            order[index] = _order(table[0][index], table[1][index])
        for name in names:
            value = found[name].reshape(batch, rows, -1)
            result[name] = np.take_along_axis(value, order[:, :, None], 1).reshape(found[name].shape)
    return result


def _table(values: list[Array], batch: int, rows: int) -> Floats:
    """All columns of all tensors, each tensor's of the size of one; integers that differ are far apart."""
    columns = []
    for value in values:
        table = np.nan_to_num(value.astype(np.float64).reshape(batch, rows, -1))
        if value.dtype.kind == "f":
            table = table / (float(np.abs(table).max()) or 1.0)
        columns.append(table)
    return np.concatenate(columns, axis=2)


def _keys(right: Floats) -> npt.NDArray[np.int64]:
    """The columns by which enough rows are in order to be sure that it is no chance."""
    steps = np.diff(right, axis=0)
    sorted_by = ((steps <= 0).all(axis=0) | (steps >= 0).all(axis=0)) & steps.any(axis=0)
    return np.flatnonzero(sorted_by) if len(right) >= SURE else np.zeros(0, np.int64)


def _order(found: Floats, right: Floats) -> npt.NDArray[np.int64]:
    """Which row of ``found`` stands for each of ``right``."""
    order = np.arange(len(right))
    out = np.flatnonzero(np.abs(found - right).max(axis=1) > ALIKE / 10)
    if not 0 < len(out) <= MOST:
        return order
    free, keys = dict.fromkeys(out.tolist()), right[:, _keys(right)]
    left = []
    for row in out.tolist():
        there = np.fromiter(free, np.int64)
        if not len(there):
            break
        far = np.abs(found[there] - right[row]).max(axis=1)
        far = np.maximum(far, np.abs(keys[there] - keys[row]).max(axis=1, initial=0.0))
        nearest = int(far.argmin())
        if far[nearest] <= ALIKE:
            order[row] = there[nearest]
            del free[int(there[nearest])]
        else:
            left.append(row)
    for row, other in zip(left, free, strict=False):
        order[row] = other
    return order
