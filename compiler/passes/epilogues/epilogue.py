"""Epilogues: a chain of nodes behind a product that nobody else reads is computed along with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.passes.epilogues.activations import activation_of
from kernels.workload.base import RELU, Activation

Array = npt.NDArray[Any]
Clamp = tuple[float | None, float | None]

LARGEST = float(np.finfo(np.float32).max)


PRODUCTS = ("Conv", "MatMul", "Gemm")


@dataclass(frozen=True)
class Wiring:
    """Who reads and who writes each tensor, and its longest path from an input in nodes."""

    readers: Mapping[str, Sequence[NodeProto]]
    writers: Mapping[str, NodeProto]
    depth: Mapping[str, int]
    outputs: frozenset[str]

    @classmethod
    def of(cls, graph: OnnxGraph) -> Wiring:
        """The wiring of ``graph`` as it is now."""
        depth: dict[str, int] = {}
        for node in graph.nodes:
            level = 1 + max((depth.get(name, 0) for name in node.input), default=0)
            depth.update(dict.fromkeys(node.output, level))
        writers = {name: node for node in graph.nodes for name in node.output}
        return cls(graph.consumers(), writers, depth, frozenset(graph.outputs))

    def only_reader(self, name: str) -> NodeProto | None:
        """The node that reads ``name`` if nothing else does."""
        following = self.readers.get(name, ())
        return following[0] if len(following) == 1 and name not in self.outputs else None

    def can_grow_from_product(self, name: str) -> bool:
        """Whether ``name`` is the end of a product's chain that may still take in its reader."""
        while self.only_reader(name) is not None:
            node = self.writers.get(name)
            if node is None or node.op_type not in (*PRODUCTS, "BatchNormalization", "Add", "Mul"):
                return False
            if node.op_type in PRODUCTS:
                return True
            name = node.input[0]
        return False


class Chain:
    """``clamp(activation(scale * first + shift + residual))``, growing from a first node along its readers.

    The residual comes behind the activation where it is ``late``; ``slope`` is that of a PRelu.

    ``scale`` and ``shift`` hold one value a channel (float64) or are None; ``channel_axis`` says which axis
    of the result the channels are.
    """

    def __init__(self, graph: OnnxGraph, first: NodeProto, channel_axis: int) -> None:
        self._graph = graph
        self.nodes = [first]
        self.output = first.output[0]
        self._shape = graph.tensors[self.output].shape
        self._axis = channel_axis % len(self._shape)
        self.channels = self._shape[self._axis]
        self.scale: Array | None = None
        self.shift: Array | None = None
        self.residual: str | None = None
        self.clamp: Clamp | None = None
        self.activation: Activation | None = None
        self.slope: Array | None = None
        self.late = False

    def add_bias(self, bias: Array | None) -> None:
        """Add one value a channel."""
        if bias is not None:
            self.shift = bias.astype(np.float64) + (0.0 if self.shift is None else self.shift)

    def multiply(self, factor: Array) -> None:
        """Multiply by one value a channel."""
        self.scale = factor * (1.0 if self.scale is None else self.scale)
        self.shift = None if self.shift is None else self.shift * factor

    def extend(self, wiring: Wiring, taken: set[str]) -> None:
        """Take in followers as long as one kernel can compute them along.

        Of two products that are added, the one further from the inputs takes the other as its residual:
        in a residual block that is the main branch, so its product looks like that of other blocks.
        """
        while True:
            if self._absorb_activation(wiring):
                continue
            node = wiring.only_reader(self.output)
            if node is None or node.output[0] in taken:
                return
            affine = self.absorb_affine(node)
            if not (affine or self._absorb_residual(node, wiring) or self._absorb_clamp(node)):
                return

    def start_affine(self) -> bool:
        """Let the first node, a batch norm, be part of what is computed; whether its constants are known."""
        folded = batch_norm(self._graph, self.nodes[0])
        if folded is not None:
            self.multiply(folded[0])
            self.add_bias(folded[1])
        return folded is not None

    def extend_affine(self, wiring: Wiring) -> None:
        """Take in followers that scale and shift, and nothing else."""
        while (node := wiring.only_reader(self.output)) is not None and self.absorb_affine(node):
            pass

    def extend_single(self, wiring: Wiring) -> None:
        """Take in followers that scale, shift and clamp."""
        while (node := wiring.only_reader(self.output)) is not None:
            if not (self.absorb_affine(node) or self._absorb_clamp(node)):
                return

    def _take(self, node: NodeProto) -> bool:
        self.nodes.append(node)
        self.output = node.output[0]
        return True

    def absorb_affine(self, node: NodeProto) -> bool:
        """Take in a batch norm, or a sum or product with constants; whether that was possible."""
        if self.clamp is not None or self.activation is not None or len(node.output) > 1:
            return False
        if node.op_type == "BatchNormalization":
            folded = batch_norm(self._graph, node) if self.residual is None and self._axis == 1 else None
            if folded is None:
                return False
            self.multiply(folded[0])
            self.add_bias(folded[1])
            return self._take(node)
        if node.op_type not in ("Add", "Sub", "Mul", "Div"):
            return False
        value = self._per_channel(node)
        if value is None:
            return False
        constant_first = node.input[0] in self._graph.constants
        if node.op_type == "Add" or (node.op_type == "Sub" and not constant_first):
            self.add_bias(value if node.op_type == "Add" else -value)
            return self._take(node)
        if self.residual is not None or (node.op_type == "Div" and (constant_first or not value.all())):
            return False
        if node.op_type == "Sub":
            self.multiply(np.full(self.channels, -1.0))
            self.add_bias(value)
        else:
            self.multiply(1.0 / value if node.op_type == "Div" else value)
        return self._take(node)

    def _per_channel(self, node: NodeProto) -> Array | None:
        """The node's constant operand as one value a channel, or None when it is something else."""
        constants = [self._graph.constants[name] for name in node.input if name in self._graph.constants]
        if len(constants) != 1 or constants[0].ndim > len(self._shape):
            return None
        value = constants[0]
        shape = (1,) * (len(self._shape) - value.ndim) + value.shape
        if any(extent != 1 for axis, extent in enumerate(shape) if axis != self._axis):
            return None
        if shape[self._axis] not in (1, self.channels):
            return None
        return np.broadcast_to(value.reshape(-1), (self.channels,)).astype(np.float64)

    def _absorb_residual(self, node: NodeProto, wiring: Wiring) -> bool:
        if node.op_type != "Add" or self.residual is not None or self.clamp is not None:
            return False
        other = node.input[1] if node.input[0] == self.output else node.input[0]
        info = self._graph.tensors[other]
        if other in self._graph.constants or other == self.output:
            return False
        if info.shape != self._shape or info.dtype != "float32":
            return False
        if wiring.depth.get(other, 0) > wiring.depth[self.output] and wiring.can_grow_from_product(other):
            return False
        self.residual, self.late = other, self.activation is not None
        return self._take(node)

    def _absorb_activation(self, wiring: Wiring) -> bool:
        if self.clamp is not None or self.activation is not None:
            return False
        found = activation_of(self._graph, wiring.readers, wiring.outputs, self.output, self._axis)
        if found is None:
            return False
        self.activation, self.slope = found.activation, found.slope
        self.nodes += found.nodes[:-1]
        return self._take(found.nodes[-1])

    def _absorb_clamp(self, node: NodeProto) -> bool:
        clamp = RELU if node.op_type == "Relu" else clip_range(self._graph, node)
        if clamp is None:
            return False
        self.clamp = clamp if self.clamp is None else one_after_other(self.clamp, clamp)
        return self._take(node)


def batch_norm(graph: OnnxGraph, node: NodeProto) -> tuple[Array, Array] | None:
    """(scale, shift) of a batch norm with constant statistics, float64; None when they are not constant."""
    values = [graph.constants.get(name) for name in node.input[1:5]]
    attributes = attributes_of(node)
    training = attributes.get("training_mode", 0)
    if training or any(value is None for value in values) or attributes.get("spatial", 1) == 0:
        return None
    gamma, beta, mean, variance = (np.asarray(value, np.float64) for value in values)
    scale = gamma / np.sqrt(variance + attributes.get("epsilon", 1e-5))
    return scale, beta - mean * scale


def one_after_other(first: Clamp, then: Clamp) -> Clamp:
    """The one clamp that does what two do."""
    low, high = then
    ends = []
    for end, without in zip(first, then, strict=True):
        if end is None:
            ends.append(without)
        else:
            raised = end if low is None else max(end, low)
            ends.append(raised if high is None else min(raised, high))
    return ends[0], ends[1]


def clip_range(graph: OnnxGraph, node: NodeProto) -> Clamp | None:
    """(low, high) of a Clip with constant bounds, an open end as None; None when it is no such thing."""
    if node.op_type != "Clip":
        return None
    attributes = attributes_of(node)
    ends: list[float | None] = [attributes.get("min"), attributes.get("max")]
    for position, name in enumerate(node.input[1:3]):
        if not name:
            continue
        if name not in graph.constants or graph.constants[name].size != 1:
            return None
        ends[position] = float(graph.constants[name].reshape(()))
    if any(end is not None and math.isnan(end) for end in ends):
        return None
    low = None if ends[0] is None or ends[0] <= -LARGEST else ends[0]
    high = None if ends[1] is None or ends[1] >= LARGEST else ends[1]
    if (low is None and high is None) or (low is not None and high is not None and low > high):
        return None
    return low, high
