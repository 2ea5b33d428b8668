"""NonMaxSuppression and NonZero with room for as many results as there can be (-1 in what is left over).

``compiler/passes/bounded_shapes/`` says what follows from that for the nodes behind them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto
from tvm import relax

from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.lower.operators.constants import constant
from compiler.lower.operators.functions import Functions
from kernels.operators.suppression import LEAST, Suppression, build_places, build_suppression


def suppression(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``."""
    shape, (rows, _) = graph.tensors[node.input[1]].shape, graph.tensors[node.output[0]].shape
    batch, classes, boxes = shape
    most, overlap, least = ([*inputs, None, None, None])[2:5]
    centred = bool(attributes_of(node).get("center_point_box", 0))
    it = Suppression(batch, classes, boxes, rows // (batch * classes), centred, least is not None)
    name = f"tilefleet_suppression_{hashlib.sha256(repr(it).encode()).hexdigest()[:12]}"
    function = Functions().get(builder, name, lambda name: build_suppression(it, name))
    operands = [
        *inputs[:2],
        constant(np.zeros(1, np.int64)) if most is None else relax.op.reshape(most, (1,)),
        constant(np.zeros(1, np.float32)) if overlap is None else relax.op.reshape(overlap, (1,)),
        constant(np.array([LEAST], np.float32)) if least is None else relax.op.reshape(least, (1,)),
    ]
    values = [builder.emit(each) for each in operands]
    return builder.emit(relax.call_tir(function, values, relax.TensorType((rows, 3), "int64")))


def places(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``."""
    info, out = graph.tensors[node.input[0]], graph.tensors[node.output[0]].shape
    name = f"tilefleet_places_{info.dtype}_{'x'.join(map(str, info.shape))}"
    function = Functions().get(builder, name, lambda name: build_places(info.shape, info.dtype, name))
    return builder.emit(relax.call_tir(function, [inputs[0]], relax.TensorType(out, "int64")))
