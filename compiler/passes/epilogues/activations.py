"""Finds activations in a graph, however they are written: by what the nodes compute of sample values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from compiler.ir.graph import OnnxGraph, attributes_of
from kernels.activated import activated, erf
from kernels.workload.activation import Activation, Kind

Array = npt.NDArray[Any]
Precise = npt.NDArray[np.float64]
Readers = Mapping[str, Sequence[NodeProto]]

LONGEST = 12
"""Nodes of the longest way to write an activation, and some more."""
CLOSE, SMALLEST = 1e-6, 0.1
"""How near samples must be relative to what they should be, or to this; constants of models are float32."""
SMALL, LEAST = 1e-3, 1e-3
"""Where a function is as steep as at zero, and the smallest alpha of those that are steeper elsewhere."""
_POSITIVE = np.concatenate(
    [np.linspace(1, 40, 79), np.linspace(0.03, 5.03, 97), np.geomspace(1e-7, 1, 43), [SMALL, 80, 150, 600]]
)
_SAMPLES = np.concatenate([-_POSITIVE, [0], _POSITIVE])


def _clip(node: NodeProto, x: Precise, *bounds: Precise | None) -> Precise:
    given = attributes_of(node)
    low, high = (*bounds, None, None)[:2]
    low = given.get("min", -math.inf) if low is None else low
    high = given.get("max", math.inf) if high is None else high
    return np.minimum(np.maximum(x, low), high)


def _of(kind: Kind, *numbers: tuple[str, float]) -> Callable[..., Precise]:
    """A node that is an activation by itself; its attributes with their defaults are the numbers."""

    def compute(node: NodeProto, x: Precise) -> Precise:
        given = attributes_of(node)
        return activated(Activation(kind, *(given.get(name, value) for name, value in numbers)), x)

    return compute


def _gelu(node: NodeProto, x: Precise) -> Precise:
    tanh = attributes_of(node).get("approximate", b"none") == b"tanh"
    return activated(Activation("tanh_gelu" if tanh else "gelu"), x)


_COMPUTED: dict[str, Callable[..., Precise]] = {
    "Add": lambda _, a, b: a + b,
    "Sub": lambda _, a, b: a - b,
    "Mul": lambda _, a, b: a * b,
    "Div": lambda _, a, b: a / b,
    "Pow": lambda _, a, b: np.power(a, b),
    "Max": lambda _, *each: np.maximum.reduce(np.broadcast_arrays(*each)),
    "Min": lambda _, *each: np.minimum.reduce(np.broadcast_arrays(*each)),
    "Neg": lambda _, x: -x,
    "Exp": lambda _, x: np.exp(x),
    "Log": lambda _, x: np.log(x),
    "Reciprocal": lambda _, x: 1 / x,
    "Erf": lambda _, x: erf(x),
    "Relu": lambda _, x: np.maximum(x, 0),
    "Clip": _clip,
    "Sigmoid": _of("sigmoid"),
    "Tanh": _of("tanh"),
    "Softplus": _of("softplus"),
    "Mish": _of("mish"),
    "Gelu": _gelu,
    "HardSigmoid": _of("hard_sigmoid", ("alpha", 0.2), ("beta", 0.5)),
    "HardSwish": lambda node, x: activated(Activation("hard_swish", 1 / 6, 0.5), x),
    "Elu": _of("elu", ("alpha", 1.0)),
    "LeakyRelu": _of("leaky_relu", ("alpha", 0.01)),
}
"""Operators of single elements on samples: of the node and its inputs, None for one that is left out."""


@dataclass(frozen=True)
class Found:
    """An activation, the nodes that compute it in order, and the slopes of ``prelu``, one a channel."""

    activation: Activation
    nodes: tuple[NodeProto, ...]
    slope: Array | None = None


def activation_of(
    graph: OnnxGraph, readers: Readers, outputs: frozenset[str], name: str, axis: int
) -> Found | None:
    """The activation that all readers of ``name`` are part of, or None; ``axis`` is that of channels.

    Nothing but the activation's result is read by other nodes.
    """
    prelu = _prelu(graph, readers, outputs, name, axis)
    if prelu is not None:
        return prelu
    with np.errstate(all="ignore"):
        for nodes, values in _closed(graph, readers, outputs, name):
            if not np.isfinite(values).all():
                continue
            activation = recognised(values)
            if activation is not None:
                return Found(activation, nodes)
    return None


def recognised(values: Precise) -> Activation | None:
    """The activation that has these values at the samples."""
    at = dict(zip(_SAMPLES.tolist(), values.tolist(), strict=True))
    for candidate in _candidates(at):
        expected = activated(candidate, _SAMPLES)
        if (
            np.abs(values - expected)
            <= CLOSE * np.maximum(np.abs(expected), np.minimum(np.abs(_SAMPLES), SMALLEST))
        ).all():
            return candidate
    return None


def _candidates(at: Mapping[float, float]) -> Iterator[Activation]:
    """Activations that might have these values, their numbers from a few of them."""
    yield from (Activation(kind) for kind in ("sigmoid", "tanh", "gelu", "tanh_gelu", "mish", "softplus"))
    even, odd = (at[SMALL] + at[-SMALL]) / 2, (at[SMALL] - at[-SMALL]) / 2
    if 0.501 < at[1.0] < 1:
        yield Activation("silu", _single(math.log(at[1.0] / (1 - at[1.0]))))
    # As good as zero makes them a line.
    if even / SMALL**2 > LEAST:
        yield Activation("hard_swish", _single(even / SMALL**2), _single(odd / SMALL))
    if odd / SMALL > LEAST:
        yield Activation("hard_sigmoid", _single(odd / SMALL), _single(even))
    # Zero is a clamp, one nothing at all.
    if at[-1.0] not in (0.0, -1.0):
        yield Activation("leaky_relu", _single(-at[-1.0]))
        yield Activation("elu", _single(at[-1.0] / math.expm1(-1.0)))


def _single(value: float) -> float:
    """As float32, which numbers of models are, so that names do not depend on rounding."""
    return float(np.float32(value))


def _closed(
    graph: OnnxGraph, readers: Readers, outputs: frozenset[str], name: str
) -> Iterator[tuple[tuple[NodeProto, ...], Precise]]:
    """Ever more nodes behind ``name``, as long as others read the last result alone.

    With the values of that result where those of ``name`` are the samples.
    """
    shape = graph.tensors[name].shape
    values: dict[str, Precise] = {name: _SAMPLES}
    nodes: list[NodeProto] = []
    while len(nodes) < LONGEST:
        found = _next(graph, readers, values, shape)
        if found is None:
            return
        node, operands = found
        nodes.append(node)
        values[node.output[0]] = _COMPUTED[node.op_type](node, *operands)
        inside = {each.output[0] for each in nodes}
        open_ends = [
            tensor
            for tensor in values
            if tensor in outputs or any(each.output[0] not in inside for each in readers.get(tensor, ()))
        ]
        if open_ends == [node.output[0]]:
            yield tuple(nodes), values[node.output[0]]


def _next(
    graph: OnnxGraph, readers: Readers, values: Mapping[str, Precise], shape: tuple[int, ...]
) -> tuple[NodeProto, list[Precise | None]] | None:
    """A node that computes single elements of what is known and of numbers, and its operands."""
    for tensor in values:
        for node in readers.get(tensor, ()):
            if node.op_type not in _COMPUTED or len(node.output) > 1 or node.output[0] in values:
                continue
            if graph.tensors[node.output[0]].shape != shape:
                continue
            operands = [_operand(graph, values, name) for name in node.input]
            if all(
                operand is not None or not name for operand, name in zip(operands, node.input, strict=True)
            ):
                return node, operands
    return None


def _operand(graph: OnnxGraph, values: Mapping[str, Precise], name: str) -> Precise | None:
    if name in values:
        return values[name]
    constant = graph.constants.get(name)
    if constant is None or constant.size != 1 or constant.dtype.kind not in "fiu":
        return None
    return np.asarray(constant.item(), np.float64)


def _prelu(graph: OnnxGraph, readers: Readers, outputs: frozenset[str], name: str, axis: int) -> Found | None:
    following = readers.get(name, ())
    if len(following) != 1 or name in outputs or following[0].op_type != "PRelu":
        return None
    node, shape = following[0], graph.tensors[name].shape
    slope = graph.constants.get(node.input[1])
    if slope is None or node.input[0] != name or slope.ndim > len(shape):
        return None
    wide = (1,) * (len(shape) - slope.ndim) + slope.shape
    place = axis % len(shape)
    if any(extent != 1 for at, extent in enumerate(wide) if at != place) or wide[place] not in (
        1,
        shape[place],
    ):
        return None
    each = np.broadcast_to(slope.reshape(-1), (shape[place],)).astype(np.float32)
    return Found(Activation("prelu"), (node,), np.ascontiguousarray(each))
