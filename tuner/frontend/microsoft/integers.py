"""Matrix products with weights of a few bits as com.microsoft has them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tuner.frontend.microsoft.fused import Array, Fused
from tuner.frontend.onnx_check import check_size


def dynamic_matmul(form: Fused) -> None:
    """DynamicQuantizeMatMul: bytes made of the data as it comes."""
    quanta, scale, zero = form.add_all("DynamicQuantizeLinear", [form.needed(0)], 3)
    _product(form, [quanta, form.needed(1), zero, form.given(3)], [scale, form.needed(2)], form.given(4))


def integer_matmul(form: Fused) -> None:
    """MatMulIntegerToFloat: of bytes with their scales."""
    operands = [form.needed(0), form.needed(1), form.given(4), form.given(5)]
    _product(form, operands, [form.needed(2), form.needed(3)], form.given(6))


def _product(form: Fused, operands: list[str], scales: list[str], bias: str) -> None:
    sums = form.add("Cast", [form.add("MatMulInteger", operands)], to=TensorProto.FLOAT)
    result = form.add("Mul", [sums, form.add("Mul", scales)])
    form.finish(form.add("Add", [result, bias]) if bias else result)


def packed_matmul(form: Fused) -> None:
    """MatMulNBits: weights of 4 or 8 bits with a scale for each block of inputs, made floats."""
    k, n, bits = (int(form.attributes.get(name, 4)) for name in ("K", "N", "bits"))
    block = int(form.attributes.get("block_size", 0))
    if bits not in (4, 8) or block < 1 or k < 1 or n < 1:
        form.refuse(f"has weights of {bits} bits in blocks of {block}, which is not supported")
    if form.given(4):
        form.refuse("has inputs in another order (g_idx), which is not supported")
    blocks = -(-k // block)
    check_size(4 * n * blocks * block, f"the weight of node {form.node.name!r}", (n, blocks * block))
    scales = form.value(2).astype(np.float32)
    quanta = _unpacked(form, form.value(1), bits, n, blocks * block)
    zeros: Array = np.array(2 ** (bits - 1), np.float32)
    if form.given(3):
        given = form.value(3)
        packed = given.dtype == np.uint8
        zeros = _unpacked(form, given, bits, n, blocks) if packed else given.astype(np.float32)
        zeros = _shaped(form, zeros, n, blocks)
    real = (quanta.reshape(n, blocks, block).astype(np.float32) - zeros) * _shaped(form, scales, n, blocks)
    weights = np.ascontiguousarray(real.reshape(n, blocks * block)[:, :k].T)
    result = form.add("MatMul", [form.needed(0), form.constant(weights)])
    form.finish(form.add("Add", [result, form.given(5)]) if form.given(5) else result)


def _unpacked(form: Fused, packed: Array, bits: int, rows: int, columns: int) -> Array:
    """Numbers of ``bits``, the lower ones of a byte first; each row begins with a byte."""
    each = 8 // bits
    if packed.dtype != np.uint8 or packed.size != rows * -(-columns // each):
        form.refuse("has weights that do not go with its K, N, bits and block_size")
    wide = np.stack([packed.reshape(rows, -1) >> (bits * i) & (2**bits - 1) for i in range(each)], -1)
    unpacked: Array = wide.reshape(rows, -1)[:, :columns]
    return unpacked


def _shaped(form: Fused, values: Array, rows: int, blocks: int) -> Array:
    if values.size != rows * blocks:
        form.refuse("has scales or zero points that do not go with its K, N and block_size")
    return values.reshape(rows, blocks, 1)
