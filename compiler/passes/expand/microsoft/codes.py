"""Matrix products by weights of 4 bits, each the place of a number in a table, as bitsandbytes makes them."""

from __future__ import annotations

import numpy as np

from compiler.ir.checks import check_size
from compiler.passes.expand.microsoft.fused import Array, Fused

_EIGHT = np.array([0, 5.208333333e-03, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25], np.float32)
FLOATS = np.concatenate([_EIGHT, -_EIGHT])
"""FP4: a sign and seven sizes, or none."""
NORMAL = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
        *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
        *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
        *(0.7229568362236023, 1.0),
    ],
    np.float32,
)
"""NF4: equally many numbers of a normal distribution lie between two of them."""
BLOCKS = (16, 32, 64, 128, 256)
"""How many weights in a row may have a scale."""
SIZES = ("K", "N", "block_size", "quant_type")
"""Attributes without which nothing is known of the weights."""


def coded_matmul(form: Fused) -> None:
    """MatMulBnb4: the weights become floats."""
    missing = [name for name in SIZES if name not in form.attributes]
    if missing:
        form.refuse(f"lacks its attributes {', '.join(missing)}; write them into the node")
    k, n, block, kind = (int(form.attributes[name]) for name in SIZES)
    if k < 1 or n < 1 or block not in BLOCKS or kind not in (0, 1):
        form.refuse(f"has {k} inputs, {n} outputs, blocks of {block} and a quant_type of {kind}")
    if not form.attributes.get("transB", 1):
        form.refuse(
            "multiplies by weights that are not transposed (transB 0), where onnxruntime reads beside them; "
            "transpose them"
        )
    check_size(4 * n * k, f"the weight of node {form.node.name!r}", (n, k))
    packed, scales = form.value(1), form.value(2).astype(np.float32).reshape(-1)
    if packed.dtype != np.uint8 or packed.size != (n * k + 1) // 2 or scales.size != -(-n * k // block):
        form.refuse("has weights or scales that do not go with its K, N and block_size")
    codes = np.stack([packed >> 4, packed & 15], -1).reshape(-1)[: n * k]
    real: Array = (FLOATS, NORMAL)[kind][codes] * np.repeat(scales, block)[: n * k]
    weights = np.ascontiguousarray(real.reshape(n, k).T)
    form.finish(form.add("MatMul", [form.needed(0), form.constant(weights)]))
