"""What every workload must compute, in plain numpy and float64 (int64 of integers): the yardstick."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.activated import activated
from kernels.int8 import reference as qreference
from kernels.workload.activations_reference import of_activations, random_activations
from kernels.workload.base import Conv2d, Epilogue, Gemm, NarrowGemm, OfActivations, QConv2d, Workload
from kernels.workload.chain import ConvChain, QConvChain
from kernels.workload.narrow_reference import random_narrow, real_weights, rounded_data

Array = npt.NDArray[Any]
Precise = npt.NDArray[np.float64]


def random_inputs(workload: Workload, rng: np.random.Generator) -> list[Array]:
    """Data, unpacked weights, [bias], [slope], [residual], as ``reference`` takes them; all of activations.

    All are normal; the weights are scaled so that sums have unit variance whatever their length, and clamps
    keep part of the result. Those of quantized workloads are as ``qreference`` says.
    """
    if isinstance(workload, ConvChain | QConvChain):
        # The data of the second are the result of the first.
        first, (_, *second) = (random_inputs(part, rng) for part in workload.parts)
        return [*first, *second]
    if isinstance(workload, QConv2d):
        return qreference.random_inputs(workload, rng)
    if isinstance(workload, OfActivations):
        return random_activations(workload, rng)
    if isinstance(workload, NarrowGemm):
        return random_narrow(workload, rng)
    shapes: list[tuple[int, ...]] = [workload.data_shape, workload.weight_shape]
    if workload.epilogue.bias:
        shapes.append((workload.bias_length,))
    if workload.epilogue.slope:
        shapes.append((workload.bias_length,))
    if workload.epilogue.residual:
        shapes.append(workload.out_shape)
    inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    terms = workload.k if isinstance(workload, Gemm) else math.prod(workload.weight_shape[1:])
    inputs[1] *= np.float32(terms**-0.5)
    return inputs


def reference(workload: Workload, inputs: Sequence[Array]) -> Array:
    """The result, of ``workload.out_shape``, for inputs as ``random_inputs`` orders them, all in float64.

    Of quantized workloads it is of their output's type.

    Raises ValueError when an input is missing or has the wrong shape.
    """
    if isinstance(workload, ConvChain | QConvChain):
        count = inputs_of(workload.first)
        between = reference(workload.first, inputs[:count])
        return reference(workload.second, [between, *inputs[count:]])
    if isinstance(workload, QConv2d):
        return qreference.reference(workload, inputs)
    if isinstance(workload, OfActivations):
        return of_activations(workload, inputs)
    if isinstance(workload, NarrowGemm):
        # The same as a product by the floats that the weights stand for.
        end = 1 + workload.constants
        real = real_weights(workload, inputs[1:end])
        plain = Gemm(workload.m, workload.n, workload.k, epilogue=workload.epilogue)
        return reference(plain, [rounded_data(workload, inputs[0]), real, *inputs[end:]])
    expected = [workload.data_shape, workload.weight_shape]
    expected += [(workload.bias_length,)] * (workload.epilogue.bias + workload.epilogue.slope)
    expected += [workload.out_shape] * workload.epilogue.residual
    if [array.shape for array in inputs] != expected:
        raise ValueError(f"{workload} takes inputs of {expected}, got {[a.shape for a in inputs]}")
    data, weights, *rest = (array.astype(np.float64) for array in inputs)
    if isinstance(workload, Gemm):
        product = data @ weights
        bias_shape: tuple[int, ...] = (workload.n,)
    else:
        product = _conv2d(workload, data, weights)
        bias_shape = (workload.out_c, 1, 1)
    return _finish(workload.epilogue, product, bias_shape, rest)


def inputs_of(conv: Conv2d | QConv2d) -> int:
    """How many inputs a convolution takes, its data among them."""
    if isinstance(conv, QConv2d):
        return len(qreference.input_shapes(conv))
    return 2 + conv.epilogue.bias + conv.epilogue.slope + conv.epilogue.residual


def _conv2d(conv: Conv2d, data: Precise, weights: Precise) -> Precise:
    """Sum over the filter's taps of one matrix product each: no patch matrix, so memory stays small."""
    top, left, bottom, right = conv.pad
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    groups, windows = conv.groups, conv.out_h * conv.out_w
    depth, filters = conv.in_c // groups, conv.out_c // groups
    total = np.zeros((conv.n, groups, filters, windows))
    for row in range(conv.kh):
        for column in range(conv.kw):
            first_row, first_column = row * conv.dilation[0], column * conv.dilation[1]
            patch = padded[:, :, first_row :: conv.stride[0], first_column :: conv.stride[1]]
            patch = np.ascontiguousarray(patch[:, :, : conv.out_h, : conv.out_w])
            patch = patch.reshape(conv.n, groups, depth, windows)
            tap = weights[:, :, row, column].reshape(groups, filters, depth)
            # A product over one channel is an outer product: numpy's matmul has no fast path for it.
            total += tap * patch if depth == 1 else np.matmul(np.ascontiguousarray(tap), patch)
    return total.reshape(conv.out_shape)


def _finish(epilogue: Epilogue, value: Precise, bias_shape: tuple[int, ...], rest: list[Precise]) -> Precise:
    extra = list(rest)
    if epilogue.bias:
        value = value + extra.pop(0).reshape(bias_shape)
    slope = extra.pop(0).reshape(bias_shape) if epilogue.slope else None
    if epilogue.residual and not epilogue.late:
        value = value + extra[0]
    if epilogue.activation is not None:
        value = activated(epilogue.activation, value, slope)
    if epilogue.late:
        value = value + extra[0]
    if epilogue.clamp is not None:
        low, high = epilogue.clamp
        value = np.clip(value, low, high)
    return value


def max_error(result: Array, expected: Array) -> float:
    """Largest |result - expected| over the largest |expected|; infinite when a result is not finite.

    Of integers it is the largest |result - expected|, in quanta.
    """
    if result.dtype.kind in "iu" and expected.dtype.kind in "iu":
        return float(np.max(np.abs(result.astype(np.int64) - expected.astype(np.int64))))
    difference = float(np.max(np.abs(result - expected)))
    if not np.isfinite(difference):
        return float("inf")
    return difference / max(float(np.max(np.abs(expected))), 1e-30)
