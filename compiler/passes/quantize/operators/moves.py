"""Operators that move elements and compute nothing: done with the bytes, by TVM."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from compiler.passes.quantize.forms import Forms
from compiler.passes.quantize.nodes import QuantizedTensor
from compiler.passes.quantize.qlinear import MICROSOFT, Expansion
from compiler.passes.quantize.rewriting import Rewriting
from kernels.int8.quantization import Quantization

MOVES = {
    *("DepthToSpace", "Expand", "Flatten", "Gather", "Pad", "Reshape", "Slice", "SpaceToDepth", "Split"),
    *("Squeeze", "Tile", "Transpose", "Unsqueeze"),
}


def move(rewriting: Rewriting, node: NodeProto) -> bool:
    """A node of ``MOVES``, done with the bytes; what follows makes floats of its result."""
    source = rewriting.known.get(node.input[0])
    if source is None:
        return False
    inputs = [source.name, *(rewriting.source(name) for name in node.input[1:])]
    if node.op_type == "Pad":
        filled = _padding(rewriting, node, source.quantization)
        if filled is None:
            return False
        inputs[2:3] = [filled]
    dtype = source.quantization.dtype
    names = [rewriting.bytes_like(f"{real}/bytes", real, dtype) for real in node.output]
    moved = NodeProto()
    moved.CopyFrom(node)
    moved.input[:], moved.output[:] = inputs, names
    rewriting.nodes.append(moved)
    for name, real in zip(names, node.output, strict=True):
        rewriting.known_as(real, QuantizedTensor(name, source.quantization), node)
    return True


def _padding(rewriting: Rewriting, node: NodeProto, quantization: Quantization) -> str | None:
    """What a Pad fills in, in quanta, by its name; None where it is no number of the quantization's."""
    if len(node.input) < 2:
        return None
    given = node.input[2] if len(node.input) > 2 else ""
    value = rewriting.graph.constants.get(given) if given else np.zeros((), np.float32)
    if value is None:
        return None
    quanta = quantization.quanta(value)
    if np.any(quantization.real(quanta) != value):
        return None
    return rewriting.graph.constant(f"{node.output[0]}/padding", quanta)


def _where(form: Expansion) -> None:
    form.finish(form.add("Where", [form.needed(0), form.real(1), form.real(4)]), 7)


FORMS = Forms(nodes=dict.fromkeys(MOVES, move), qlinear={f"{MICROSOFT}.QLinearWhere": _where})
