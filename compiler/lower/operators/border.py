"""Where a quantized model goes from floats to bytes and back, all of a tensor by one scale."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from compiler.ir.graph import Array, OnnxGraph, attributes_of
from kernels.int8.quantization import Quantization

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
DYNAMIC = "DynamicQuantizeLinear"


def border_of(graph: OnnxGraph, node: NodeProto) -> Quantization | None:
    """How the bytes at such a node stand for its floats; None for other nodes and those with several scales.

    None as well for constants, other types than bytes and float32, and scales that are computed.
    """
    if node.op_type not in (QUANTIZE, DEQUANTIZE) or node.input[0] in graph.constants:
        return None
    names = (node.input[0], node.output[0])
    real, code = names if node.op_type == QUANTIZE else reversed(names)
    scale = graph.constants.get(node.input[1])
    zero = graph.constants.get(node.input[2]) if len(node.input) > 2 and node.input[2] else np.array(0)
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    dtype = graph.tensors[code].dtype
    if graph.tensors[real].dtype != "float32" or scale.dtype != "float32" or dtype not in ("int8", "uint8"):
        return None
    try:
        return Quantization("int8" if dtype == "int8" else "uint8", float(scale.item()), int(zero.item()))
    except ValueError:  # a scale of zero: TVM's operators say what they do then
        return None


def scales_of_sums(graph: OnnxGraph, node: NodeProto) -> Array | None:
    """The float32 scales of a DequantizeLinear of int32 sums, one or one a channel; None for other nodes.

    Channels are the second of four axes and else the last.
    """
    if node.op_type != DEQUANTIZE or node.input[0] in graph.constants:
        return None
    info = graph.tensors[node.input[0]]
    scale = graph.constants.get(node.input[1])
    zero = graph.constants.get(node.input[2]) if len(node.input) > 2 and node.input[2] else np.array(0)
    if info.dtype != "int32" or scale is None or scale.dtype != "float32" or not info.shape:
        return None
    if zero is None or zero.any():
        return None
    if scale.size == 1:
        return scale.reshape(1)
    axis = attributes_of(node).get("axis", 1)
    rank = len(info.shape)
    channels = 1 if rank == 4 else rank - 1
    return scale if axis % rank == channels and scale.shape == (info.shape[channels],) else None
