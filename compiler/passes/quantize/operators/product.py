"""Convolutions and matrix products: the forms that ``product_nodes.py`` makes workloads of."""

from __future__ import annotations

from onnx import TensorProto, helper

from compiler.passes.quantize.forms import Forms
from compiler.passes.quantize.product_nodes import integer_product, product
from compiler.passes.quantize.qlinear import MICROSOFT, Expansion


def _convolution(form: Expansion) -> None:
    inputs = [form.real(0), form.real(3, axis=0)]
    if form.given(8):
        scale = _bias_scale(form, 1, 4)
        inputs.append(form.dequantized(form.needed(8), scale, ""))
    form.finish(form.add("Conv", inputs, **form.attributes), 6)


def _bias_scale(form: Expansion, data: int, weights: int) -> str:
    """The product of two scales, one for each of the larger's entries."""
    output = form.add("Mul", [form.needed(data), form.needed(weights)])
    sizes = form.sizes
    if form.needed(data) in sizes and form.needed(weights) in sizes:
        sizes[output] = max(sizes[form.needed(data)], sizes[form.needed(weights)])
    return output


def _matmul(form: Expansion) -> None:
    form.finish(form.add("MatMul", [form.real(0, axis=-2), form.real(3, axis=-1)]), 6)


def _gemm(form: Expansion) -> None:
    turned = form.attributes.get("transB", 0)
    inputs = [form.real(0, axis=-2), form.real(3, axis=0 if turned else 1)]
    if form.given(6):
        scale, alpha = _bias_scale(form, 1, 4), form.attributes.get("alpha", 1.0)
        if alpha != 1.0:
            factor = form.add("Constant", [], value=helper.make_tensor("", TensorProto.FLOAT, [], [alpha]))
            size = form.sizes.get(scale)
            scale = form.add("Mul", [scale, factor])
            form.sizes |= {scale: size} if size else {}
        inputs.append(form.dequantized(form.needed(6), scale, "", axis=-1))
    if form.given(7):
        form.finish(form.add("Gemm", inputs, **form.attributes), 7)
    else:
        form.add("Gemm", inputs, **form.attributes)
        form.nodes[-1].output[0] = form.node.output[0]


FORMS = Forms(
    nodes={
        **dict.fromkeys(("Conv", "Gemm", "MatMul"), product),
        **dict.fromkeys(("ConvInteger", "MatMulInteger"), integer_product),
    },
    qlinear={
        "QLinearConv": _convolution,
        "QLinearMatMul": _matmul,
        f"{MICROSOFT}.QLinearConv": _convolution,
        f"{MICROSOFT}.QGemm": _gemm,
    },
)
