"""Sums: Add between DequantizeLinear and QuantizeLinear, QLinearAdd, TFLite's ADD and SUB."""

from __future__ import annotations

from onnx import NodeProto

from compiler.passes.quantize.forms import Forms
from compiler.passes.quantize.pairs import pair
from compiler.passes.quantize.qlinear import MICROSOFT, binary
from compiler.passes.quantize.rewriting import Rewriting
from kernels.operators.int8.add import QAdd


def add(rewriting: Rewriting, node: NodeProto) -> bool:
    """Add of two quantized tensors, or of one and a constant."""
    return pair(rewriting, node, QAdd.of)


FORMS = Forms(
    nodes={"Add": add},
    qlinear={f"{MICROSOFT}.QLinearAdd": binary("Add")},
    tflite={"ADD": "Add", "SUB": "Sub"},
)
