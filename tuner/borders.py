"""Where a quantized model goes from floats to bytes and back, all of a tensor by one scale."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from kernels.quantization import Quantization
from tuner.onnx_graph import OnnxGraph

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


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
