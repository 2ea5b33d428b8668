"""Sums: Add between DequantizeLinear and QuantizeLinear, QLinearAdd, TFLite's ADD and SUB."""

from __future__ import annotations

from onnx import NodeProto

from kernels.operators.int8.add import QAdd
from tuner.frontend.quantized.forms import Forms
from tuner.frontend.quantized.pairs import pair
from tuner.frontend.quantized.qlinear import MICROSOFT, binary
from tuner.frontend.quantized.rewriting import Rewriting


def add(rewriting: Rewriting, node: NodeProto) -> bool:
    """Add of two quantized tensors, or of one and a constant."""
    return pair(rewriting, node, QAdd.of)


FORMS = Forms(
    nodes={"Add": add},
    qlinear={f"{MICROSOFT}.QLinearAdd": binary("Add")},
    tflite={"ADD": "Add", "SUB": "Sub"},
)
