"""Operators besides products that work on activations in every layout, and what they cost there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from onnx import NodeProto, helper

from kernels.concat import predict_concat
from kernels.pool import Pool, predict_pool
from kernels.target import Target
from tuner.frontend.onnx_graph import OnnxGraph

UNARY = {
    *("Abs", "Clip", "Elu", "Erf", "Exp", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Neg"),
    *("Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh"),
}
BINARY = {"Add", "Div", "Mul", "Sub"}
POOLS = {
    "AveragePool": "average",
    "GlobalAveragePool": "average",
    "GlobalMaxPool": "max",
    "MaxPool": "max",
}


@dataclass(frozen=True)
class Rule:
    """A node that reads the activations ``reads`` in the layout that it writes, in ``seconds`` by layout."""

    reads: tuple[str, ...]
    seconds: Callable[[str], float]


def rule_of(graph: OnnxGraph, node: NodeProto, target: Target, threads: int) -> Rule | None:
    """How ``node`` works in layouts, or None when it only does in NCHW."""
    if len([name for name in node.output if name]) != 1 or not is_image(graph, node.output[0]):
        return None
    if node.op_type in UNARY:
        # Further inputs are bounds: numbers that have no layout.
        return _if_images(graph, node.input[:1], lambda _: 0.0)
    if node.op_type in BINARY:
        data = [name for name in node.input if name not in graph.constants]
        fits = all(_fits(graph, node, name) for name in node.input)
        return _if_images(graph, data, lambda _: 0.0) if fits else None
    if node.op_type in POOLS:
        pool = pool_of(graph, node)
        if pool is None:
            return None
        seconds = partial(predict_pool, pool, target=target, threads=threads)
        return _if_images(graph, node.input[:1], seconds)
    if node.op_type == "Concat" and _attributes(node).get("axis") in (1, -3):
        shapes = tuple(graph.tensors[name].shape for name in node.input)
        seconds = partial(predict_concat, shapes, target=target, threads=threads)
        return _if_images(graph, node.input, seconds)
    return None


def is_image(graph: OnnxGraph, name: str) -> bool:
    """Whether ``name`` is an activation that layouts are about: four axes, float32, not constant."""
    info = graph.tensors.get(name)
    if info is None or name in graph.constants:
        return False
    return len(info.shape) == 4 and info.dtype == "float32"


def pool_of(graph: OnnxGraph, node: NodeProto) -> Pool | None:
    """The pooling at ``node`` as our kernels compute it, or None when they do not."""
    return pool_geometry(graph, node) if is_image(graph, node.input[0]) else None


def pool_geometry(graph: OnnxGraph, node: NodeProto) -> Pool | None:
    """The pooling at ``node``, of whatever type, or None when kernels compute none like it."""
    if len(graph.tensors[node.input[0]].shape) != 4:
        return None
    shape, out = graph.tensors[node.input[0]].shape, graph.tensors[node.output[0]].shape
    kind = POOLS[node.op_type]
    if node.op_type.startswith("Global"):
        return Pool(kind, shape, (1, 1), (shape[2], shape[3]), (1, 1), (0, 0))
    attributes = _attributes(node)
    pads = attributes.get("pads", (0, 0, 0, 0))
    padded = attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
    if padded or any(step != 1 for step in attributes.get("dilations", (1, 1))):
        return None
    if attributes.get("storage_order", 0):
        return None
    window, stride = attributes["kernel_shape"], attributes.get("strides", (1, 1))
    counted = bool(attributes.get("count_include_pad", 0)) and any(pads)
    if counted and attributes.get("ceil_mode", 0):
        return None  # implementations differ on what the last windows count
    pool = Pool(
        kind,
        shape,
        (out[2], out[3]),
        (window[0], window[1]),
        (stride[0], stride[1]),
        (pads[0], pads[1]),
        counted,
    )
    return pool if pool.why_not() is None else None


def _if_images(graph: OnnxGraph, reads: Iterable[str], seconds: Callable[[str], float]) -> Rule | None:
    names = tuple(dict.fromkeys(reads))
    return Rule(names, seconds) if names and all(is_image(graph, name) for name in names) else None


def _fits(graph: OnnxGraph, node: NodeProto, name: str) -> bool:
    """Whether an operand means the same in every layout once it is stored in it."""
    channels, shape = graph.tensors[node.output[0]].shape[1], graph.tensors[name].shape
    if name not in graph.constants:
        return len(shape) == 4 and shape[1] == channels
    return len(shape) <= 4 and (len(shape) < 3 or shape[-3] in (1, channels))


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}
