"""Matrix products with weights of a few bits as com.microsoft has them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from compiler.ir.checks import check_size
from compiler.ir.own_nodes import ROUNDED
from compiler.passes.expand.microsoft.fused import Array, Fused
from compiler.passes.expand.microsoft.gathered import WHOLE, unpacked

AXIS_SINCE = 13
"""From this version on a DequantizeLinear has a scale for each place of an axis."""
OF_INT8 = 4
"""The accuracy level of a MatMulNBits with data that may become int8."""


def dynamic_matmul(form: Fused) -> None:
    """DynamicQuantizeMatMul: bytes made of the data as it comes."""
    quanta, scale, zero = form.add_all("DynamicQuantizeLinear", [form.needed(0)], 3)
    operands = [quanta, form.needed(1), zero, form.given(3)]
    form.finish(scaled_product(form, operands, [scale, form.needed(2)], form.given(4)))


def integer_matmul(form: Fused) -> None:
    """MatMulIntegerToFloat: of bytes with their scales."""
    operands = [form.needed(0), form.needed(1), form.given(4), form.given(5)]
    form.finish(scaled_product(form, operands, [form.needed(2), form.needed(3)], form.given(6)))


def scaled_product(form: Fused, operands: list[str], scales: list[str], bias: str) -> str:
    """A product of bytes (data, weights, their zero points) times both scales, and perhaps a bias."""
    sums = form.add("Cast", [form.add("MatMulInteger", operands)], to=TensorProto.FLOAT)
    result = form.add("Mul", [sums, form.add("Mul", scales)])
    return form.add("Add", [result, bias]) if bias else result


def packed_matmul(form: Fused) -> None:
    """MatMulNBits: weights of 2, 4 or 8 bits with a scale for each block of inputs, made floats."""
    k, n, bits = (int(form.attributes.get(name, 4)) for name in ("K", "N", "bits"))
    block = int(form.attributes.get("block_size", 0))
    if bits not in WHOLE or block < 1 or k < 1 or n < 1:
        form.refuse(f"has weights of {bits} bits in blocks of {block}, which is not supported")
    blocks = -(-k // block)
    order = _order(form, bits, k, blocks) if form.given(4) else None
    check_size(4 * n * blocks * block, f"the weight of node {form.node.name!r}", (n, blocks * block))
    scales = form.value(2).astype(np.float32)
    bytes_alone = not form.given(3) or form.value(3).dtype == np.uint8
    if form.opset >= AXIS_SINCE and bytes_alone and order is None:
        _quantized_matmul(form, scales, bits, (k, n, block))
        return
    quanta = _unpacked(form, form.value(1), bits, n, blocks * block)
    zeros: Array = np.array(2 ** (bits - 1), np.float32)
    if form.given(3):
        given = form.value(3)
        packed = given.dtype == np.uint8
        zeros = _unpacked(form, given, bits, n, blocks) if packed else given.astype(np.float32)
        zeros = _shaped(form, zeros, n, blocks)
    scales = _shaped(form, scales, n, blocks)
    if order is None:
        real = (quanta.reshape(n, blocks, block).astype(np.float32) - zeros) * scales
    else:
        zeros = np.broadcast_to(zeros, scales.shape)
        real = (quanta[:, :k].astype(np.float32) - zeros[:, order, 0]) * scales[:, order, 0]
    weights = np.ascontiguousarray(real.reshape(n, -1)[:, :k].T)
    result = form.add("MatMul", [form.needed(0), form.constant(weights)])
    form.finish(form.add("Add", [result, form.given(5)]) if form.given(5) else result)


def _quantized_matmul(form: Fused, scales: Array, bits: int, sizes: tuple[int, int, int]) -> None:
    """By weights that a DequantizeLinear makes floats of: whoever keeps them narrow finds them there."""
    k, n, block = sizes
    blocks = -(-k // block)
    quanta = _unpacked(form, form.value(1), bits, n, blocks * block)
    zeros: Array = np.full((n, blocks), 2 ** (bits - 1), np.uint8)
    if form.given(3):
        zeros = _unpacked(form, form.value(3), bits, n, blocks)
    scales, zeros = (_shaped(form, each, n, blocks)[..., 0] for each in (scales, zeros))
    weights = narrow_weights(form, quanta, scales, zeros, k)
    result = form.add("MatMul", [form.needed(0), weights])
    if int(form.attributes.get("accuracy_level", 0)) == OF_INT8:
        form.nodes[-1].metadata_props.add(key=ROUNDED, value=str(block))
    form.finish(form.add("Add", [result, form.given(5)]) if form.given(5) else result)


def narrow_weights(form: Fused, quanta: Array, scales: Array, zeros: Array, inputs: int) -> str:
    """Weights (inputs, outputs) of ``(quantum - zero) * scale``, of quanta (outputs, whole blocks of inputs).

    Scales and zeros (outputs, blocks). The scales apart: here they may be negative, those of a
    DequantizeLinear may not.
    """
    outputs, width = quanta.shape
    rows = scales.size
    whole = [quanta.reshape(rows, -1), np.ones(rows, np.float32), zeros.reshape(-1)]
    names = [form.constant(np.ascontiguousarray(each)) for each in whole]
    real = form.add("DequantizeLinear", names, axis=0)
    real = form.add("Mul", [real, form.constant(scales.reshape(-1, 1))])
    real = form.add("Reshape", [real, form.constant(np.array([outputs, width]))])
    if inputs < width:
        ends = [form.constant(np.array([value])) for value in (0, inputs, 1)]
        real = form.add("Slice", [real, *ends])
    return form.add("Transpose", [real], perm=[1, 0])


def _order(form: Fused, bits: int, k: int, blocks: int) -> Array:
    """Which block has the scale of each input."""
    if bits != 4 or (form.given(3) and form.value(3).dtype == np.uint8):
        form.refuse(
            "has inputs in another order (g_idx), which onnxruntime computes right for weights of 4 bits "
            "whose zero points are floats or left out; export it without"
        )
    order = form.value(4).reshape(-1)[:k].astype(np.int64)
    if order.size < k or order.min() < 0 or order.max() >= blocks:
        form.refuse(f"has a g_idx that is no block of its {blocks} for each of {k} inputs")
    return order


def _unpacked(form: Fused, packed: Array, bits: int, rows: int, columns: int) -> Array:
    """Numbers of ``bits``, the lower ones of a byte first; each row begins with a byte."""
    if packed.dtype != np.uint8 or packed.size != rows * -(-columns * bits // 8):
        form.refuse("has weights that do not go with its K, N, bits and block_size")
    return unpacked(packed.reshape(rows, -1), bits)[:, :columns]


def _shaped(form: Fused, values: Array, rows: int, blocks: int) -> Array:
    if values.size != rows * blocks:
        form.refuse("has scales or zero points that do not go with its K, N and block_size")
    return values.reshape(rows, blocks, 1)
