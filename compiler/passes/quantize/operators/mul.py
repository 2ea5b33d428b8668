"""Products of elements: Mul between DequantizeLinear and QuantizeLinear, QLinearMul, TFLite's MUL."""

from __future__ import annotations

from onnx import NodeProto

from compiler.passes.quantize.forms import Forms
from compiler.passes.quantize.pairs import pair
from compiler.passes.quantize.qlinear import MICROSOFT, binary
from compiler.passes.quantize.rewriting import Rewriting
from compiler.passes.quantize.tables import lookup_of
from kernels.operators.int8.mul import QMul


def multiply(rewriting: Rewriting, node: NodeProto) -> bool:
    """Mul like Add; what is a function of one tensor, as x times its sigmoid, is left to be a table."""
    tail = rewriting.tail(node.output[0])
    if tail is None:
        return False
    graph, wiring, real = rewriting.graph, rewriting.wiring, tail.nodes[-1].input[0]
    if lookup_of(graph, wiring, rewriting.known, real, tail.out.quantization) is not None:
        return False
    return pair(rewriting, node, QMul.of)


FORMS = Forms(
    nodes={"Mul": multiply}, qlinear={f"{MICROSOFT}.QLinearMul": binary("Mul")}, tflite={"MUL": "Mul"}
)
