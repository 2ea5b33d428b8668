"""Mixtures of experts: each has two layers, and a router chooses some experts for every token.

All experts are computed, as one product by the weights of all for each layer: those that were not chosen
leave zeros between the two. So a row takes as many multiply-adds as the model has weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler.ir.checks import check_size
from compiler.passes.expand.microsoft.fused import Array, Fused, tanh_gelu
from compiler.passes.expand.microsoft.gathered import WHOLE, unpacked
from compiler.passes.expand.microsoft.integers import narrow_weights

ROUTER = 14
"""The input of a QMoE that has the weights of its experts, where these are not the scores."""
ZERO_SINCE = 14
"""From which operator set on a Reshape may be told sizes of 0."""
ACTIVATIONS = ("relu", "gelu", "silu", "identity", "swiglu")


@dataclass(frozen=True)
class Layer:
    """Weights (experts, outputs, inputs) that one of the layers has, and biases (experts, outputs)."""

    weights: Array
    bias: Array | None
    scales: Array | None = None
    zeros: Array | None = None

    def product(self, form: Fused, data: str, lay: Callable[[Array], Array]) -> str:
        """``data`` by all weights, which ``lay`` puts into the order (all outputs, all inputs)."""
        table = lay(self.weights)
        if self.scales is None or self.zeros is None:
            return form.add("MatMul", [data, form.constant(np.ascontiguousarray(table.T))])
        scales, zeros = lay(self.scales), lay(self.zeros)
        weights = narrow_weights(form, table, scales, zeros, table.shape[1])
        result = form.add("MatMul", [data, weights])
        # What is kept narrow is known by the name of its product.
        form.nodes[-1].name += f"/{len(form.nodes)}"
        return result


def mixture(form: Fused) -> None:
    """MoE: floats, weighted by a Softmax of all scores."""
    _refuse_third(form, (6, 7))
    weights = form.add("Softmax", [form.needed(1)], axis=1)
    layers = [Layer(form.value(at), form.value(at + 1) if form.given(at + 1) else None) for at in (2, 4)]
    _check(form, layers)
    chosen, places = _chosen(form, weights, len(layers[0].weights))
    if form.attributes.get("normalize_routing_weights", 0) == 1:
        chosen = _of_one(form, chosen)
    _finish(form, layers, chosen, places)


def quantized_mixture(form: Fused) -> None:
    """QMoE: weights of a few bits; a Softmax of the scores that were chosen, or other weights of the same.

    Data stay floats, also where onnxruntime has kernels for bytes alone.
    """
    _refuse_third(form, (8, 9, 10, 13))
    kind = form.attributes.get("quant_type", b"int").decode()
    if kind != "int":
        form.refuse(
            f"has weights of {kind!r}, which onnxruntime does not compute on a CPU; quantize to integers"
        )
    layers = [_quantized(form, at, name) for at, name in ((2, "fc1"), (5, "fc2"))]
    _check(form, layers)
    scores, experts = form.needed(1), len(layers[0].weights)
    chosen, places = _chosen(form, scores, experts)
    if form.given(ROUTER):
        turned = _turned(form, form.given(ROUTER), experts)
        chosen = form.add("GatherElements", [turned, places], axis=1)
        if form.attributes.get("normalize_routing_weights", 0) == 1:
            chosen = _of_one(form, chosen)
    else:
        chosen = form.add("Softmax", [chosen], axis=1)
    _finish(form, layers, chosen, places)


def _refuse_third(form: Fused, inputs: tuple[int, ...]) -> None:
    if any(map(form.given, inputs)):
        form.refuse(
            "has a third layer (fc3), which onnxruntime does not compute on a CPU; put it into the first "
            "(activation_type swiglu with swiglu_fusion 1)"
        )


def _quantized(form: Fused, at: int, name: str) -> Layer:
    """The layer ``name``: weights, scales and biases are the inputs from ``at`` on."""
    bits = int(form.attributes.get("expert_weight_bits", 4))
    if int(form.attributes.get(f"{name}_expert_weight_bits", bits)) != bits:
        form.refuse("has layers of different bits, which onnxruntime does not compute on a CPU")
    packed, scales, block = form.value(at), form.value(at + 1), int(form.attributes.get("block_size", 0))
    if bits not in WHOLE or packed.dtype != np.uint8 or packed.ndim != 3:
        form.refuse(f"has weights of {packed.dtype} with {bits} bits, which is not supported")
    check_size(4 * packed.size * (8 // bits), f"the weights of node {form.node.name!r}", packed.shape)
    values = unpacked(packed, bits)
    experts, rows, columns = values.shape
    blocks = columns // block if block > 0 else 1
    wanted = (experts, rows, blocks) if block > 0 else (experts, rows)
    if (block > 0 and columns % block) or scales.shape != wanted:
        form.refuse(f"has scales of {list(scales.shape)} for blocks of {block} of {list(values.shape)}")
    zeros = np.full(wanted, 1 << (bits - 1), np.uint8)
    given = 11 if name == "fc1" else 12
    if form.given(given):
        zeros = unpacked(form.value(given), bits)[..., : wanted[-1]]
    if zeros.shape != wanted:
        form.refuse(f"has zero points of {list(zeros.shape)} for scales of {list(wanted)}")
    bias = form.value(at + 2) if form.given(at + 2) else None
    shape = (experts, rows, blocks)
    return Layer(values, bias, scales.astype(np.float32).reshape(shape), zeros.reshape(shape))


def _check(form: Fused, layers: list[Layer]) -> None:
    """Refuse layers that do not fit together."""
    activation = form.attributes.get("activation_type", b"relu").decode()
    if activation not in ACTIVATIONS:
        form.refuse(f"has the activation {activation!r}; {', '.join(ACTIVATIONS)} are supported")
    if activation == "swiglu" and form.attributes.get("swiglu_fusion", 0) != 1:
        form.refuse(
            "has a gate apart; onnxruntime computes swiglu_fusion 1 alone on a CPU: interleave the rows"
        )
    one, two = layers
    parts = 2 if activation == "swiglu" else 1
    shapes = [each.weights.shape for each in layers]
    if one.weights.ndim != 3 or shapes[1] != (shapes[0][0], shapes[0][2], shapes[0][1] // parts):
        form.refuse(f"has layers of {list(shapes[0])} and {list(shapes[1])}, which do not fit together")
    for layer in layers:
        if layer.bias is not None and layer.bias.shape != layer.weights.shape[:2]:
            form.refuse(f"has biases of {list(layer.bias.shape)} for weights of {list(layer.weights.shape)}")
    if parts * two.weights.shape[2] != one.weights.shape[1] or not one.weights.size:
        form.refuse(f"has layers of {list(shapes[0])} and {list(shapes[1])}, which do not fit together")
    k = int(form.attributes.get("k", 1))
    if not 1 <= k <= shapes[0][0]:
        form.refuse(f"chooses {k} of {shapes[0][0]} experts")
    if form.attributes.get("use_sparse_mixer", 0) and k != 2:
        form.refuse(f"has a sparse mixer that chooses {k} instead of 2 experts")


def _turned(form: Fused, scores: str, experts: int) -> str:
    """Scores with the last expert first: of equal ones the last is chosen, and a TopK takes the first."""
    return form.add("Gather", [scores, form.constant(np.arange(experts)[::-1])], axis=1)


def _chosen(form: Fused, scores: str, experts: int) -> tuple[str, str]:
    """The greatest scores of each row, and their places, counted from the last expert."""
    k = form.constant(np.array([int(form.attributes.get("k", 1))]))
    values, places = form.add_all("TopK", [_turned(form, scores, experts), k], 2, axis=1)
    return values, places


def _of_one(form: Fused, weights: str) -> str:
    """Weights over their sums, or none where that is nothing."""
    sums, nothing = form.reduced("ReduceSum", weights, 1), form.number(0.0)
    return form.add("Where", [form.add("Equal", [sums, nothing]), nothing, form.add("Div", [weights, sums])])


def _finish(form: Fused, layers: list[Layer], chosen: str, places: str) -> None:
    """The output, of the weights of the experts that were chosen and their places."""
    one, two = layers
    experts, hidden, inner = two.weights.shape
    data, nothing = form.needed(0), form.number(0.0)
    flat = form.rank(data) != 2
    rows = form.add("Reshape", [data, form.constant(np.array([-1, hidden]))]) if flat else data
    last_first = form.constant(np.arange(experts)[::-1].reshape(1, 1, -1))
    is_expert = form.add("Equal", [form.unsqueezed(places, 2), last_first])
    weights = form.reduced(
        "ReduceSum", form.add("Where", [is_expert, form.unsqueezed(chosen, 2), nothing]), 1, keepdims=0
    )
    counts = form.add("Greater", [weights, nothing])
    weights = form.add("Where", [counts, weights, nothing])
    of_each = [form.unsqueezed(each, 2) for each in (counts, weights)]
    gated = form.attributes.get("activation_type", b"relu") == b"swiglu"

    def side_by_side(table: Array) -> Array:
        parts = [table[:, 0::2], table[:, 1::2]] if gated else [table]
        return np.concatenate([part.reshape(-1, table.shape[-1]) for part in parts])

    def behind_each_other(table: Array) -> Array:
        return table.transpose(1, 0, 2).reshape(hidden, -1)

    first = one.product(form, rows, side_by_side)
    if one.bias is not None:
        first = form.add("Add", [first, form.constant(side_by_side(one.bias[..., None]).reshape(-1))])
    active = _activated(form, first, experts * inner)
    active = form.add("Reshape", [active, form.constant(np.array([0, experts, inner]))])
    active = form.add("Where", [of_each[0], form.add("Mul", [active, of_each[1]]), nothing])
    active = form.add("Reshape", [active, form.constant(np.array([0, experts * inner]))])
    result = two.product(form, active, behind_each_other)
    if two.bias is not None:
        result = form.add("Add", [result, form.add("MatMul", [weights, form.constant(two.bias)])])
    if flat:
        empty = {"allowzero": 1} if form.opset >= ZERO_SINCE else {}
        result = form.add("Reshape", [result, form.add("Shape", [data])], **empty)
    form.finish(result)


def _activated(form: Fused, data: str, width: int) -> str:
    """What lies between the layers: ``width`` numbers in a row, before which there may be as many gates."""
    kind = form.attributes.get("activation_type", b"relu").decode()
    if kind == "relu":
        return form.add("Relu", [data])
    if kind == "silu":
        return form.add("Mul", [data, form.add("Sigmoid", [data])])
    if kind == "gelu":
        return tanh_gelu(form, data)
    if kind == "identity":
        return data
    gate, linear = (_columns(form, data, first, first + width) for first in (0, width))
    limit = float(form.attributes.get("swiglu_limit", np.inf))
    if np.isfinite(limit):
        gate = form.add("Min", [gate, form.number(limit)])
        linear = form.add("Max", [form.add("Min", [linear, form.number(limit)]), form.number(-limit)])
    steep = float(form.attributes.get("activation_alpha", 1.0))
    slope = form.add("Mul", [gate, form.number(steep)]) if steep != 1 else gate
    swish = form.add("Mul", [gate, form.add("Sigmoid", [slope])])
    more = float(form.attributes.get("activation_beta", 0.0))
    return form.add("Mul", [swish, form.add("Add", [linear, form.number(more)]) if more else linear])


def _columns(form: Fused, data: str, first: int, last: int) -> str:
    ends = [form.constant(np.array([value])) for value in (first, last, 1)]
    return form.add("Slice", [data, *ends])
