"""What products of activations must compute, in plain numpy and float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.workload.attention import Attention
from kernels.workload.matmul import MatMul
from kernels.workload.view import View

Array = npt.NDArray[Any]


def random_activations(workload: MatMul | Attention, rng: np.random.Generator) -> list[Array]:
    """Normal arrays of ``workload.input_shapes``; queries make scores normal whatever the scale."""
    inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in workload.input_shapes]
    if isinstance(workload, Attention):
        inputs[0] *= np.float32(1 / max(1e-3, abs(workload.scale) * math.sqrt(workload.depth)))
    return inputs


def of_activations(workload: MatMul | Attention, inputs: Sequence[Array]) -> Array:
    """The result, of ``workload.out_shape``, in float64; ValueError when an input has the wrong shape."""
    shapes = tuple(array.shape for array in inputs)
    if shapes != workload.input_shapes:
        raise ValueError(f"{workload} takes inputs of {list(workload.input_shapes)}, got {list(shapes)}")
    wide = [np.asarray(array, np.float64) for array in inputs]
    extents = workload.extents
    if isinstance(workload, MatMul):
        a, b = _seen(wide[0], workload.a, extents, workload.m, workload.k), wide[1]
        found = workload.alpha * (a @ _seen(b, workload.b, extents, workload.k, workload.n))
    else:
        found = _attention(workload, wide)
    result = np.empty(workload.out_shape)
    _seen(result, workload.out, extents, *found.shape[-2:])[...] = found
    return result


def _attention(what: Attention, inputs: Sequence[Array]) -> Array:
    queries = _seen(inputs[0], what.queries, what.extents, what.rows, what.depth)
    keys = _seen(inputs[1], what.keys, what.extents, what.depth, what.count)
    values = _seen(inputs[2], what.values, what.extents, what.count, what.width)
    scores = what.scale * (queries @ keys)
    if what.mask is not None:
        scores = scores + _seen(inputs[3], what.mask, what.extents, what.rows, what.count)
    if what.causal is not None:
        later = np.arange(what.count) > np.arange(what.rows)[:, np.newaxis] + what.causal
        scores = np.where(later, -np.inf, scores)
    largest = scores.max(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - largest)
        weights /= weights.sum(-1, keepdims=True)
    weights = np.where(np.isneginf(largest), 0.0 if what.zeros else np.nan, weights)
    found: Array = what.alpha * (weights @ values)
    return found


def _seen(array: Array, view: View, extents: tuple[int, ...], rows: int, columns: int) -> Array:
    """The matrices of a flat array."""
    strides = tuple(8 * step for step in (*view.batch, view.row, view.column))
    return np.lib.stride_tricks.as_strided(array, (*extents, rows, columns), strides)
