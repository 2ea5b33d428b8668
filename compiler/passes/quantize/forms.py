"""The forms in which a quantized operator comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from onnx import NodeProto

from compiler.passes.quantize.qlinear import Expand
from compiler.passes.quantize.rewriting import Rewriting

Match = Callable[[Rewriting, NodeProto], bool]
"""Writes what replaces a node and says so, or says that it stays."""


@dataclass(frozen=True)
class Forms:
    """What stands for an operator in each way to write a quantized model.

    ``nodes`` are ONNX's between DequantizeLinear and QuantizeLinear (QDQ form), by operator. ``qlinear`` are
    nodes on bytes, by domain and operator, which become QDQ form first. ``tflite`` are elementwise operators
    of TFLite by what they are in ONNX; those with options of their own are in ``tflite/readers.py``.
    """

    nodes: Mapping[str, Match] = field(default_factory=dict)
    qlinear: Mapping[str, Expand] = field(default_factory=dict)
    tflite: Mapping[str, str] = field(default_factory=dict)
