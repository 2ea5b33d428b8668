"""Convolutions and matrix products of quantized tensors as workloads with their constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from compiler.analysis.geometry import conv_of
from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.passes.epilogues.epilogue import Clamp
from compiler.passes.quantize.nodes import QuantizedConstant, quanta_range
from kernels.int8.constants import scale_of, weight_range_of
from kernels.int8.quantization import Quantization
from kernels.int8.reference import fixed_point
from kernels.workload.base import Conv2d, Gemm
from kernels.workload.qconv2d import LIMITS, Byte, QConv2d

Array = npt.NDArray[Any]
SAME_SCALE = 1e-5
"""Relative difference of a bias' scale from that of the sums; theirs is a product of two float32 numbers."""

FINEST = 2.0**-24
"""What a bias alone is counted in, of itself: no float32 has more places."""


@dataclass
class Operands:
    """A product's constant side: ``weights`` are of the workload's shape, int8, and less ``zero`` count.

    ``unit`` (float64) is what one quantum of the sum stands for, one value or one a filter.
    """

    geometry: Conv2d | Gemm
    weights: Array
    zero: int
    unit: Array
    biases: list[Array | QuantizedConstant] = field(default_factory=list)

    @property
    def filters(self) -> int:
        """How many results there are for each window or row."""
        return int(self.weights.shape[3])

    def revive(self, data_scale: float) -> None:
        """Let nothing but the bias count for filters of a scale by which float32 makes 0 of each product.

        Such a scale, of 0 where a filter is dead, says nothing of the sums, and the bias has none of its own.
        """
        scales = np.broadcast_to(self.unit, (self.filters,))
        dead = np.float32(data_scale) * scales.astype(np.float32) == 0
        if not dead.any():
            return
        self.weights = np.where(dead, np.int8(self.zero), self.weights)
        bias = np.zeros(self.filters)
        for each in self.biases:
            bias = bias + (each.real() if isinstance(each, QuantizedConstant) else each.astype(np.float64))
        own = np.abs(bias) * FINEST / data_scale
        # No finer than the others where that will do: one scale unlike them makes slower code for all.
        usual = scales[~dead].min() if not dead.all() else own.max() or 1.0
        self.unit = np.where(dead, np.maximum(own, usual), scales)

    def sums(self) -> Array:
        """int64 sum of ``weight - zero`` of each filter."""
        sums: Array = (self.weights.astype(np.int64) - self.zero).sum((0, 1, 2))
        return sums


def conv_operands(graph: OnnxGraph, node: NodeProto, weights: QuantizedConstant) -> Operands | str:
    """Those of the Conv or ConvInteger ``node``, or why there is no kernel for it."""
    if weights.quanta.ndim < 2 or (weights.scale.size > 1 and weights.axis != 0):
        return "its weights have scales along another axis than the filters"
    geometry = conv_of(graph, node, weights.quanta.shape)
    if isinstance(geometry, str):
        return geometry
    return _operands(geometry, weights.quanta.transpose(2, 3, 1, 0), weights)


def matmul_operands(graph: OnnxGraph, node: NodeProto, weights: QuantizedConstant) -> Operands | str:
    """Those of the MatMul, Gemm or MatMulInteger ``node``, or why there is no kernel for it."""
    shape, quanta = graph.tensors[node.input[0]].shape, weights.quanta
    attributes = attributes_of(node)
    if len(shape) < 2 or quanta.ndim < 2:
        return "an operand is a vector"
    if any(extent != 1 for extent in quanta.shape[:-2]) or quanta.ndim > len(shape):
        return "its weights are a batch of matrices"
    turned = bool(attributes.get("transB", 0))
    if weights.scale.size > 1 and weights.axis != quanta.ndim - (2 if turned else 1):
        return "its weights have scales along another axis than the columns"
    depth, columns = quanta.shape[-2:][::-1] if turned else quanta.shape[-2:]
    matrix = quanta.reshape(columns, depth).T if turned else quanta.reshape(depth, columns)
    rows = shape[::-1] if attributes.get("transA", 0) else shape
    geometry = Gemm(int(np.prod(rows[:-1])), columns, depth)
    found = _operands(geometry, matrix[None, None], weights)
    if not isinstance(found, str):
        found.unit = found.unit * float(attributes.get("alpha", 1.0))
    return found


def _operands(geometry: Conv2d | Gemm, quanta: Array, weights: QuantizedConstant) -> Operands | str:
    """``quanta`` are the weights in the workload's order; as int8 about one zero point."""
    if weights.quanta.dtype == np.int32:
        return "its weights are int32"
    centered = quanta.astype(np.int32)
    zeros, zero = weights.zero, int(weights.zero[0])
    if np.any(zeros != zero):
        centered, zero = centered - zeros, 0
    low, high = LIMITS["int8"]
    if zero and low <= centered.min() - zero and centered.max() - zero <= high:
        centered, zero = centered - zero, 0
    elif quanta.dtype == np.uint8:
        centered, zero = centered - 128, zero - 128
    if centered.min() < low or centered.max() > high:
        return "its weights have zero points that are too far apart"
    return Operands(geometry, np.ascontiguousarray(centered, np.int8), zero, weights.scale)


def workload_of(
    operands: Operands, data: Quantization, out: Quantization | None, clamp: Clamp | None
) -> tuple[QConv2d, tuple[Array, ...]] | str:
    """The workload and its constants; without ``out`` its results are the sums. Or why there is none."""
    unit = data.scale * operands.unit
    bias = _bias(operands, unit)
    if bias is None:
        return "its bias is too large for its scales"
    # Whatever the zero point: kernels add up products by bytes of either sign before they take it off.
    largest = np.abs(operands.weights.astype(np.int64) - operands.zero).sum((0, 1, 2)) * 255
    if np.any(largest + np.abs(bias) >= 1 << 31):
        return "its sums may be too large for 32 bits"
    zero = data.zero
    if isinstance(operands.geometry, Gemm) or not any(operands.geometry.pad):
        # No padding holds it. Layers that differ in it alone become one workload, tuned once.
        bias, zero = bias - zero * operands.sums(), 0
    scales: tuple[Array, ...] = ()
    requantized: dict[str, Any] = {"out_dtype": "int32"}
    if out is not None:
        factors = unit / out.scale
        per_channel = bool(np.any(factors != factors[0]))
        try:
            scales = fixed_point(factors if per_channel else factors[:1])
        except ValueError as error:
            return str(error)
        requantized = {
            "out_dtype": out.dtype,
            "out_zero": out.zero,
            "per_channel": per_channel,
            "clamp": quanta_range(clamp, out),
            "scale": scale_of(*scales),
        }
    workload = QConv2d(
        **_geometry(operands.geometry),
        data_dtype=data.dtype,
        weight_dtype="int8",
        data_zero=zero,
        weight_zero=operands.zero,
        weight_range=weight_range_of(operands.weights),
        **requantized,
    )
    return workload, (operands.weights, bias.astype(np.int32), *scales)


def dynamic_workload(operands: Operands, dtype: Byte) -> QConv2d | str:
    """The workload of data that come with their scale and zero point, or why there is none."""
    size = np.abs(operands.weights.astype(np.int64) - operands.zero).sum((0, 1, 2))
    if np.any(255 * (3 * size + 2 * abs(operands.zero) * operands.weights.shape[2]) >= 1 << 31):
        return "its sums may be too large for 32 bits"
    return QConv2d(
        **_geometry(operands.geometry),
        data_dtype=dtype,
        weight_dtype="int8",
        weight_zero=operands.zero,
        weight_range=weight_range_of(operands.weights),
        out_dtype="float32",
    )


def _geometry(geometry: Conv2d | Gemm) -> dict[str, Any]:
    if isinstance(geometry, Gemm):
        return {
            "n": 1,
            "in_h": 1,
            "in_w": geometry.m,
            "in_c": geometry.k,
            "out_c": geometry.n,
            "kh": 1,
            "kw": 1,
        }
    names = ("n", "in_h", "in_w", "in_c", "out_c", "kh", "kw", "stride", "pad", "dilation", "groups")
    return {name: getattr(geometry, name) for name in names}


def _bias(operands: Operands, unit: Array) -> Array | None:
    """int64 sum of all biases in quanta of the sums, or None when it is out of the range of int32."""
    total = np.zeros(operands.filters)
    with np.errstate(all="ignore"):  # what is not finite is refused below
        for bias in operands.biases:
            if isinstance(bias, QuantizedConstant):
                real = bias.real()
                near = np.isclose(bias.scale, unit, rtol=SAME_SCALE, atol=0) | (real == 0)
                exact = np.all(near) and not bias.zero.any()
                value = np.where(real == 0, 0.0, bias.quanta) if exact else real / unit
            else:
                value = bias.astype(np.float64) / unit
            total = total + value
    if not np.all(np.abs(total) < 1 << 31):
        return None
    rounded: Array = np.rint(total).astype(np.int64)
    return rounded
