"""Tensors of bytes put together, those of another scale requantized first."""

from __future__ import annotations

import math

from onnx import NodeProto

from compiler.ir.graph import attributes_of
from compiler.passes.quantize.forms import Forms
from compiler.passes.quantize.nodes import QuantizedTensor, unit
from compiler.passes.quantize.qlinear import MICROSOFT, Expansion
from compiler.passes.quantize.rewriting import Rewriting
from kernels.int8.quantization import Quantization
from kernels.operators.int8.concat import QConcat


def concat(rewriting: Rewriting, node: NodeProto) -> bool:
    """Concat of quantized tensors, those of another scale requantized to the following QuantizeLinear's."""
    real = node.output[0]
    if not all(math.prod(rewriting.graph.tensors[name].shape) for name in node.input):
        return False
    if all(rewriting.is_bytes(name) for name in node.input):
        names = [rewriting.source(name) for name in node.input]
        what = _concat(rewriting, node, unit(rewriting.graph.tensors[real].dtype))
        rewriting.operator(what, names, real, node)
        return True
    sources = [rewriting.known[name] for name in node.input if name in rewriting.known]
    if len(sources) < len(node.input):
        return False
    out = sources[0].quantization
    if any(source.quantization != out for source in sources):
        tail = rewriting.tail(real)
        if tail is None or tail.clamp is not None:
            return False
        out = tail.out.quantization
        names = [
            rewriting.requantized(source, name, out, node)
            for source, name in zip(sources, node.input, strict=True)
        ]
        rewriting.operator(_concat(rewriting, node, out), names, tail.out.name, node)
        rewriting.take([node, *tail.nodes])
        return True
    name = rewriting.bytes_like(f"{real}/bytes", real, out.dtype)
    rewriting.operator(_concat(rewriting, node, out), [source.name for source in sources], name, node)
    rewriting.known_as(real, QuantizedTensor(name, out), node)
    return True


def _concat(rewriting: Rewriting, node: NodeProto, out: Quantization) -> QConcat:
    shapes = tuple(rewriting.graph.tensors[name].shape for name in node.input)
    return QConcat(shapes, attributes_of(node)["axis"] % len(shapes[0]), out.dtype)


def _qlinear(form: Expansion) -> None:
    inputs = [form.real(at) for at in range(2, len(form.node.input), 3)]
    form.finish(form.add("Concat", inputs, **form.attributes), 0)


FORMS = Forms(nodes={"Concat": concat}, qlinear={f"{MICROSOFT}.QLinearConcat": _qlinear})
