"""Sparse constants of a TFLite file, made dense.

A tensor is cut into blocks; the axes of the blocks, then those inside of a block, are walked in a given
order. Along each the elements are all there, or segments of a list of indices say which are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from compiler.ir.checks import ModelError

Array = npt.NDArray[Any]


def dense(sparsity: Any, values: Array, shape: Sequence[int], name: str) -> Array:
    """The dense elements, flat; ``values`` are those that are stored.

    Raises ModelError where the description does not fit ``shape`` or ``values``.
    """
    rank = len(shape)
    order = [int(axis) for axis in _numbers(sparsity.TraversalOrderAsNumpy())]
    mapped = [int(axis) for axis in _numbers(sparsity.BlockMapAsNumpy())]
    levels = len(order)
    if sorted(order) != list(range(levels)) or levels != rank + len(mapped):
        raise ModelError(f"the sparse tensor {name!r} has {levels} axes to walk for {rank}")
    if sparsity.DimMetadataLength() != levels or any(not 0 <= axis < rank for axis in mapped):
        raise ModelError(f"the sparse tensor {name!r} does not describe its axes")
    sizes = [0] * levels
    # Coordinates of all entries, level by level: each entry so far becomes several.
    places = np.zeros((1, 0), np.int64)
    for level, axis in enumerate(order):
        about = sparsity.DimMetadata(level)
        if about.Format() == tflite.DimensionType.DENSE:
            size = about.DenseSize()
            counts = np.full(len(places), max(0, size))
            indices = np.tile(np.arange(max(0, size)), len(places))
        else:
            segments, indices = (_vector(about, part) for part in ("ArraySegments", "ArrayIndices"))
            counts = np.diff(segments)
            size = int(indices.max(initial=-1)) + 1
            if len(counts) != len(places) or (counts < 0).any() or counts.sum() != len(indices):
                raise ModelError(f"the sparse tensor {name!r} has segments that do not fit")
        if len(indices) > math.prod(shape) or (indices < 0).any():
            raise ModelError(f"the sparse tensor {name!r} has more entries than elements")
        places = np.column_stack([np.repeat(places, counts, axis=0), indices])
        sizes[axis] = size
    if len(places) != len(values):
        raise ModelError(f"the sparse tensor {name!r} has {len(values)} values for {len(places)} places")
    block = {axis: sizes[rank + number] for number, axis in enumerate(mapped)}
    coordinates = np.zeros((rank, len(places)), np.int64)
    for level, axis in enumerate(order):
        if axis < rank:
            coordinates[axis] += places[:, level] * block.get(axis, 1)
        else:
            coordinates[mapped[axis - rank]] += places[:, level]
    if len(places) and (coordinates >= np.asarray(shape)[:, np.newaxis]).any():
        raise ModelError(f"the sparse tensor {name!r} has entries outside of {list(shape)}")
    result = np.zeros(tuple(shape), values.dtype)
    result[tuple(coordinates)] = values
    return result.reshape(-1)


def _numbers(values: Any) -> Array:
    # The accessors give 0 where there is no vector.
    return np.zeros(0, np.int64) if isinstance(values, int) else np.asarray(values, np.int64)


def _vector(about: Any, part: str) -> Array:
    """A vector of whichever width it is stored in."""
    table = getattr(about, part)()
    kind = getattr(about, f"{part}Type")()
    names = {
        tflite.SparseIndexVector.Int32Vector: "Int32Vector",
        tflite.SparseIndexVector.Uint16Vector: "Uint16Vector",
        tflite.SparseIndexVector.Uint8Vector: "Uint8Vector",
    }
    if table is None or kind not in names:
        raise ModelError("a sparse tensor has no list of its indices")
    vector = getattr(tflite, names[kind])()
    vector.Init(table.Bytes, table.Pos)
    return _numbers(vector.ValuesAsNumpy())
