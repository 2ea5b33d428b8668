"""QuantizeLinear and DequantizeLinear themselves; what lies between two of them may be a table."""

from __future__ import annotations

from onnx import NodeProto

from compiler.passes.quantize.forms import Forms
from compiler.passes.quantize.nodes import quantized
from compiler.passes.quantize.qlinear import MICROSOFT, standard
from compiler.passes.quantize.rewriting import Rewriting
from compiler.passes.quantize.tables import lookup_of


def quantize(rewriting: Rewriting, node: NodeProto) -> bool:
    """QuantizeLinear of a function of one quantized tensor: a table, or nothing at all."""
    out, real = quantized(rewriting.graph, node), node.input[0]
    if out is None:
        return False
    source = rewriting.known.get(real)
    if source is not None and source.quantization == out.quantization:
        rewriting.equate(out.name, source.name, node)
        return True
    found = lookup_of(rewriting.graph, rewriting.wiring, rewriting.known, real, out.quantization)
    if found is None:
        return False
    leaf, lookup = found
    like = rewriting.wiring.writers[real] if real != leaf else node
    rewriting.operator(lookup, [rewriting.known[leaf].name], out.name, like)
    return True


def dequantize(rewriting: Rewriting, node: NodeProto) -> bool:
    """DequantizeLinear of an activation: from here on its bytes are known."""
    source = rewriting.read(node)
    if source is None:
        return False
    rewriting.known[node.output[0]] = source
    rewriting.copy(node)
    return True


FORMS = Forms(
    nodes={"QuantizeLinear": quantize, "DequantizeLinear": dequantize},
    qlinear={f"{MICROSOFT}.{name}": standard for name in ("QuantizeLinear", "DequantizeLinear")},
)
