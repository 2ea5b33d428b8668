"""The quantization that QuantizeLinear and DequantizeLinear nodes say: scale, zero point, axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import OnnxGraph, attributes_of, is_quantized_constant
from compiler.passes.epilogues.epilogue import Clamp
from kernels.int8.quantization import Quantization

Array = npt.NDArray[Any]
NODES = ("QuantizeLinear", "DequantizeLinear")
BYTES: tuple[Literal["int8", "uint8"], ...] = ("int8", "uint8")


@dataclass(frozen=True)
class QuantizedTensor:
    """An activation of bytes: its name in the graph, and what the bytes stand for."""

    name: str
    quantization: Quantization


@dataclass(frozen=True)
class QuantizedConstant:
    """A constant of integers; ``scale`` (float64) and ``zero`` hold one value, or several along ``axis``.

    The axis means nothing where there is one value of each.
    """

    quanta: Array
    scale: Array
    zero: Array
    axis: int

    def real(self) -> Array:
        """The real numbers, float64."""
        shape = [-1 if at == self.axis else 1 for at in range(self.quanta.ndim)]
        scale, zero = (v.reshape(shape if v.size > 1 else ()) for v in (self.scale, self.zero))
        result: Array = (self.quanta.astype(np.int64) - zero) * scale
        return result

    def transposed(self, order: Sequence[int]) -> QuantizedConstant:
        """With its axes in another order."""
        return QuantizedConstant(
            self.quanta.transpose(order), self.scale, self.zero, list(order).index(self.axis)
        )


@dataclass(frozen=True)
class _Parameters:
    scale: Array
    zero: Array
    axis: int


def check_quantization(graph: OnnxGraph) -> None:
    """Raises ModelError that names a node with scales or zero points that make no sense."""
    for node in graph.nodes:
        if node.op_type in NODES:
            _parameters(graph, node)


def dequantized(graph: OnnxGraph, node: NodeProto) -> QuantizedTensor | None:
    """The activation that ``node`` makes float32 of, or None when it is no such node."""
    if node.op_type != "DequantizeLinear" or node.input[0] in graph.constants:
        return None
    return _tensor(graph, node, node.input[0])


def quantized(graph: OnnxGraph, node: NodeProto) -> QuantizedTensor | None:
    """The activation that ``node`` makes of float32, or None when it is no such node."""
    if node.op_type != "QuantizeLinear":
        return None
    return _tensor(graph, node, node.output[0])


def quantized_constant(graph: OnnxGraph, node: NodeProto) -> QuantizedConstant | None:
    """The constant that ``node`` makes floats of, or None when it is no such node."""
    if not is_quantized_constant(node, graph.constants):
        return None
    found = _parameters(graph, node)
    if found is None:
        return None
    return QuantizedConstant(
        graph.constants[node.input[0]],
        found.scale.astype(np.float64),
        found.zero.astype(np.int64),
        found.axis,
    )


def quanta_range(clamp: Clamp | None, out: Quantization) -> tuple[int, int]:
    """The quanta between two real numbers: rounding keeps the order."""
    low, high = clamp or (None, None)
    ends = np.array([-np.inf if low is None else low, np.inf if high is None else high], np.float32)
    first, last = out.quanta(ends)
    return int(first), int(last)


def unit(dtype: str) -> Quantization:
    """Bytes that stand for themselves."""
    return Quantization(next(byte for byte in BYTES if byte == dtype), 1.0)


def _tensor(graph: OnnxGraph, node: NodeProto, name: str) -> QuantizedTensor | None:
    found, dtype = _parameters(graph, node), graph.tensors[name].dtype
    for byte in BYTES:
        # By a scale of zero nothing stands for anything: floats say what comes of it.
        if dtype == byte and found is not None and found.scale.size == 1 and found.scale[0]:
            return QuantizedTensor(name, Quantization(byte, float(found.scale[0]), int(found.zero[0])))
    return None


def _parameters(graph: OnnxGraph, node: NodeProto) -> _Parameters | None:
    """Scales and zero points as vectors; None when they are computed, negative, no float32, or of blocks."""
    names = [name for name in node.input[1:3] if name]
    if any(name not in graph.constants for name in names):
        return None
    attributes = attributes_of(node)
    scale = graph.constants[names[0]]
    zero = graph.constants[names[1]] if len(names) > 1 else np.zeros(scale.shape, np.int8)
    values = scale.astype(np.float64)
    if not scale.size:
        _refuse(node, "has scales without elements")
    if not np.all(np.isfinite(values)):
        _refuse(node, "has scales that are not all finite")
    if zero.size != scale.size:
        _refuse(node, f"has {zero.size} zero points for {scale.size} scales")
    integers = graph.tensors[node.input[0] if node.op_type == "DequantizeLinear" else node.output[0]]
    if len(names) > 1 and zero.dtype != integers.dtype:
        _refuse(node, f"has zero points of {zero.dtype} for {integers.dtype}")
    if attributes.get("block_size", 0):
        return None
    shape, axis = graph.tensors[node.input[0]].shape, attributes.get("axis", 1)
    if scale.size == 1:
        axis = 0
    elif scale.ndim != 1 or not -len(shape) <= axis < len(shape) or scale.size != shape[axis]:
        _refuse(node, f"has scales of {list(scale.shape)} along axis {axis} of {list(shape)}")
    if scale.dtype != np.float32 or integers.dtype not in ("int8", "uint8", "int32") or np.any(values < 0):
        return None
    return _Parameters(scale.reshape(-1), zero.reshape(-1), axis % max(1, len(shape)))


def _refuse(node: NodeProto, reason: str) -> NoReturn:
    raise ModelError(f"node {node_name(node)!r} ({node.op_type}) {reason}")
