"""What products by narrow weights must compute, in plain numpy and float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.workload.narrow import NarrowGemm

Array = npt.NDArray[Any]


def random_narrow(gemm: NarrowGemm, rng: np.random.Generator) -> list[Array]:
    """Data, weights, [scales, [zeros]], [bias], [residual]: quanta are uniform, the rest is normal."""
    data = rng.standard_normal(gemm.data_shape, np.float32)
    spread = gemm.k**-0.5
    if gemm.bits == 16:
        constants = [(rng.standard_normal(gemm.weight_shape) * spread).astype(np.float16)]
    else:
        middle, shape = 2 ** (gemm.bits - 1), (gemm.blocks, gemm.n)
        constants = [rng.integers(0, 2 * middle, gemm.weight_shape).astype(np.uint8)]
        constants.append((rng.uniform(0.5, 1.5, shape) * spread / middle).astype(np.float32))
        if gemm.zeros:
            constants.append(rng.integers(0, 2 * middle, shape).astype(np.float32))
    rest: list[tuple[int, ...]] = [(gemm.bias_length,)] * (gemm.epilogue.bias + gemm.epilogue.slope)
    rest += [gemm.out_shape] * gemm.epilogue.residual
    return [data, *constants, *(rng.standard_normal(shape, np.float32) for shape in rest)]


def rounded_data(gemm: NarrowGemm, data: Array) -> Array:
    """What the data are multiplied as, float64: rounded in float32, where the product says so."""
    if not gemm.rounded:
        return data.astype(np.float64)
    parts = []
    for start in range(0, gemm.k, gemm.block):
        part = data[:, start : start + gemm.block]
        peak = np.abs(part).max(axis=1, keepdims=True)
        inverse = np.divide(np.float32(127), peak, out=np.zeros_like(peak), where=peak > 0)
        step = (peak / np.float32(127)).astype(np.float64)
        parts.append(np.rint(part * inverse).astype(np.float64) * step)
    return np.concatenate(parts, axis=1)


def real_weights(gemm: NarrowGemm, constants: Sequence[Array]) -> Array:
    """The weights (k, n), float64, that ``constants`` (weights, [scales, [zeros]]) stand for."""
    quanta, *codes = (array.astype(np.float64) for array in constants)
    if gemm.bits == 16:
        return quanta
    spread = [np.repeat(each, gemm.block, axis=0)[: gemm.k] for each in codes]
    zero = spread[1] if gemm.zeros else 2 ** (gemm.bits - 1)
    weights: Array = (quanta - zero) * spread[0]
    return weights
