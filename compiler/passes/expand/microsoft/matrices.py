"""Inverses of matrices, by elimination with the largest pivot, which is as exact as onnxruntime's."""

from __future__ import annotations

import numpy as np

from compiler.passes.expand.microsoft.fused import Fused

LARGEST = 32
"""Rows that are written out, a dozen nodes each; ONNX has no operator for it."""


def inverse(form: Fused) -> None:
    """Inverse of each matrix of a batch."""
    data = form.needed(0)
    rank, size = form.rank(data), form.extent(data, -1)
    if rank < 2 or form.extent(data, -2) != size:
        form.refuse("inverts what is no square matrix")
    if size > LARGEST:
        form.refuse(f"inverts matrices of {size} rows; at most {LARGEST} are supported")
    kind = np.float64 if form.is_double(data) else np.float32
    unit = form.add("Expand", [form.constant(np.eye(size, dtype=kind)), form.add("Shape", [data])])
    # The unit matrix beside it becomes the inverse while it becomes the unit matrix.
    both = form.add("Concat", [data, unit], axis=rank - 1)
    for row in range(size):
        both = _eliminated(form, both, row, (size, rank), form.constant(np.zeros((), kind)))
    form.finish(_columns(form, both, range(size, 2 * size), rank))


def _eliminated(form: Fused, both: str, row: int, sizes: tuple[int, int], nothing: str) -> str:
    """``both`` with column ``row`` made that of the unit matrix."""
    size, rank = sizes
    rows = np.arange(size).reshape(-1, 1)
    # Rows above have been pivots already.
    found = form.add("Abs", [_columns(form, both, [row], rank)])
    found = form.add("Where", [form.constant(rows < row), form.add("Neg", [found]), found])
    best = form.add("ArgMax", [found], axis=rank - 2, keepdims=1)
    is_best, is_this = form.add("Equal", [form.constant(rows), best]), form.constant(rows == row)
    pivots, this = (_only(form, both, which, rank, nothing) for which in (is_best, is_this))
    swapped = form.add("Where", [is_best, this, both])
    scaled = form.add("Div", [pivots, _columns(form, pivots, [row], rank)])
    less = form.add("Mul", [_columns(form, swapped, [row], rank), scaled])
    return form.add("Where", [is_this, scaled, form.add("Sub", [swapped, less])])


def _only(form: Fused, both: str, which: str, rank: int, nothing: str) -> str:
    """The one row that is marked."""
    marked = form.add("Where", [which, both, nothing])
    return form.reduced("ReduceSum", marked, rank - 2)


def _columns(form: Fused, data: str, columns: range | list[int], rank: int) -> str:
    return form.add("Gather", [data, form.constant(np.array(columns))], axis=rank - 1)
