"""Functions of one tensor as tables; ``border.py`` finds those of real numbers at their QuantizeLinear."""

from __future__ import annotations

from onnx import NodeProto

from compiler.passes.quantize.forms import Forms
from compiler.passes.quantize.nodes import unit
from compiler.passes.quantize.qlinear import MICROSOFT, unary
from compiler.passes.quantize.rewriting import Rewriting
from compiler.passes.quantize.tables import evaluate
from kernels.operators.int8.lookup import QLookup


def byte_function(rewriting: Rewriting, node: NodeProto) -> bool:
    """Relu or Clip of bytes as they are."""
    name, out = node.input[0], node.output[0]
    if not rewriting.is_bytes(name) or any(each not in rewriting.graph.constants for each in node.input[1:]):
        return False
    quantization = unit(rewriting.graph.tensors[name].dtype)
    values = evaluate(rewriting.graph, [node], {name: quantization.all_quanta()}, out)
    if values is None:
        return False
    shape = rewriting.graph.tensors[name].shape
    table = tuple(int(value) for value in values)
    what = QLookup(shape, quantization.dtype, quantization.dtype, table)
    rewriting.operator(what, [rewriting.source(name)], out, node)
    return True


FORMS = Forms(
    nodes={"Clip": byte_function, "Relu": byte_function},
    qlinear={f"{MICROSOFT}.QLinear{name}": unary(name) for name in ("LeakyRelu", "Sigmoid")},
    tflite={"HARD_SWISH": "HardSwish", "LOGISTIC": "Sigmoid", "TANH": "Tanh"},
)
