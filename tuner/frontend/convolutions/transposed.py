"""Transposed convolutions, as convolutions of stride 1 whose channels become pixels.

With strides s each s x s pixels of the result, its phases, see the same pixels of the data, each through
weights of its own. So one convolution computes s x s times the channels, over the data's pixels, and an
interleaving spreads them. Where a phase has fewer weights than another it gets zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from tuner.frontend.epilogue import Chain, Wiring
from tuner.frontend.onnx_check import node_name
from tuner.frontend.onnx_graph import Array, OnnxGraph, TensorInfo, attributes_of
from tuner.frontend.own_nodes import INTERLEAVE


def write_transposed(graph: OnnxGraph) -> None:
    """Rewrite every ConvTranspose of float32 images that has constant weights."""
    wiring = Wiring.of(graph)
    written: dict[str, list[NodeProto]] = {}
    taken: set[str] = set()
    for node in graph.nodes:
        if node.op_type == "ConvTranspose" and (made := _plan(graph, node)) is not None:
            chain = Chain(graph, node, channel_axis=1)
            if made.is_spread:
                # What scales, shifts and clamps each element does so before the elements are spread.
                chain.extend_single(wiring)
            taken.update(each.output[0] for each in chain.nodes)
            written[chain.output] = _Writer(graph, node, made).nodes(chain)
    nodes: list[NodeProto] = []
    for node in graph.nodes:
        if node.output[0] in written:
            nodes += written[node.output[0]]
        elif node.output[0] not in taken:
            nodes.append(node)
    graph.nodes = nodes


@dataclass(frozen=True)
class Axis:
    """One spatial axis: ``extent`` elements become ``out``, of the blocks of phases ``first`` to ``last``.

    An element of the result at ``at`` is phase ``(at + pad) % stride`` of block ``(at + pad) // stride``.
    """

    extent: int
    out: int
    taps: int
    stride: int
    dilation: int
    pad: int

    @property
    def spread(self) -> int:
        """Taps of the ordinary convolution."""
        reach = (self.taps - 1) * self.dilation + 1
        return self.taps if self.stride == 1 else -(-reach // self.stride)

    @property
    def step(self) -> int:
        """Its dilation."""
        return self.dilation if self.stride == 1 else 1

    @property
    def first(self) -> int:
        """The first block of which anything is wanted."""
        return self.pad // self.stride

    @property
    def last(self) -> int:
        """The last of them."""
        return (self.out - 1 + self.pad) // self.stride

    @property
    def pads(self) -> tuple[int, int]:
        """Its padding; negative where it does not read all of the data."""
        return (self.spread - 1) * self.step - self.first, self.last - self.extent + 1

    @property
    def unread(self) -> tuple[int, int]:
        """How much of the data it does not read, at the beginning and at the end."""
        return max(0, -self.pads[0]), max(0, -self.pads[1])

    @property
    def blocks(self) -> int:
        """How many blocks are computed."""
        return self.last - self.first + 1

    @property
    def cut(self) -> int:
        """How many phases of the first of them are left out."""
        return self.pad % self.stride

    def apart(self, weights: Array, axis: int) -> Array:
        """``weights`` with their ``axis`` as two: taps of the ordinary convolution, phases."""
        by = self.dilation if self.stride > 1 else 1
        whole = np.zeros(
            (*weights.shape[:axis], self.spread * self.stride, *weights.shape[axis + 1 :]), weights.dtype
        )
        whole[(slice(None),) * axis + (slice(0, (self.taps - 1) * by + 1, by),)] = weights
        split = (*weights.shape[:axis], self.spread, self.stride, *weights.shape[axis + 1 :])
        return np.flip(whole.reshape(split), axis)


@dataclass(frozen=True)
class _Plan:
    rows: Axis
    columns: Axis
    groups: int

    @property
    def axes(self) -> tuple[Axis, Axis]:
        return self.rows, self.columns

    @property
    def phases(self) -> int:
        return self.rows.stride * self.columns.stride

    @property
    def is_spread(self) -> bool:
        """Whether there is anything to interleave."""
        return self.phases > 1


def _plan(graph: OnnxGraph, node: NodeProto) -> _Plan | None:
    info, out = graph.tensors[node.input[0]], graph.tensors[node.output[0]].shape
    names = [name for name in node.input[1:] if name]
    if len(out) != 4 or info.dtype != "float32" or any(name not in graph.constants for name in names):
        return None
    if node.input[0] in graph.constants:
        return None
    attributes, taps = attributes_of(node), graph.constants[node.input[1]].shape[2:]
    strides, dilations = attributes.get("strides", (1, 1)), attributes.get("dilations", (1, 1))
    pads = attributes.get("pads", (0, 0, 0, 0))
    rows, columns = (
        Axis(info.shape[axis + 2], out[axis + 2], taps[axis], strides[axis], dilations[axis], pads[axis])
        for axis in (0, 1)
    )
    if any(sum(axis.unread) >= axis.extent for axis in (rows, columns)):
        return None  # nothing of the data is in the result
    return _Plan(rows, columns, attributes.get("group", 1))


class _Writer:
    """Writes one transposed convolution, with what follows it, as other nodes."""

    def __init__(self, graph: OnnxGraph, node: NodeProto, plan: _Plan) -> None:
        self._graph, self._node, self._plan = graph, node, plan
        self._name = node.output[0]

    def nodes(self, chain: Chain) -> list[NodeProto]:
        plan, graph, node = self._plan, self._graph, self._node
        (top, bottom), (left, right) = ([max(0, pad) for pad in axis.pads] for axis in plan.axes)
        data, found = self._read()
        inputs = [data, graph.constant(f"{self._name}/phases", self._weights())]
        if len(node.input) > 2 and node.input[2]:
            inputs.append(self._constant(graph.constants[node.input[2]]))
        at = self._tensor() if plan.is_spread else chain.output
        found.append(
            helper.make_node(
                "Conv",
                inputs,
                [at],
                name=node_name(node),
                group=plan.groups,
                pads=[top, left, bottom, right],
                dilations=[axis.step for axis in plan.axes],
            )
        )
        if not plan.is_spread:
            return found
        for before, after in zip(chain.nodes, chain.nodes[1:], strict=False):
            for made in self._single(before, after, at):
                found.append(made)
                at = made.output[0]
        made = helper.make_node(
            INTERLEAVE,
            [at],
            [chain.output],
            name=node_name(node),
            steps=[axis.stride for axis in plan.axes],
            run=graph.tensors[self._name].shape[1] // plan.groups,
            crop=[axis.cut for axis in plan.axes],
        )
        return [*found, made]

    def _read(self) -> tuple[str, list[NodeProto]]:
        """The data that are read, and the nodes that cut them out."""
        graph, data = self._graph, self._node.input[0]
        unread = [axis.unread for axis in self._plan.axes]
        if not any(map(any, unread)):
            return data, []
        info, place = graph.tensors[data], zip(self._plan.axes, unread, strict=True)
        limits = [(first, axis.extent - last) for axis, (first, last) in place]
        cut = graph.fresh(f"{self._name}/read")
        shape = (*info.shape[:2], *(end - start for start, end in limits))
        graph.tensors[cut] = TensorInfo(shape, info.elem_type)
        operands = [
            graph.constant(f"{self._name}/limits", np.array(values, np.int64))
            for values in (*zip(*limits, strict=True), (2, 3))
        ]
        return cut, [helper.make_node("Slice", [data, *operands], [cut], name=node_name(self._node))]

    def _single(self, before: NodeProto, after: NodeProto, data: str) -> list[NodeProto]:
        """What ``after`` does to each element of ``before``, done to ``data``, the phases."""
        name, alone = node_name(after), Chain(self._graph, before, channel_axis=1)
        if not alone.absorb_affine(after):
            inputs = [data, *after.input[1:]]
            made = helper.make_node(after.op_type, inputs, [self._tensor()], name=name)
            made.attribute.extend(after.attribute)
            return [made]
        found: list[NodeProto] = []
        for op, value in (("Mul", alone.scale), ("Add", alone.shift)):
            if value is not None:
                inputs = [found[-1].output[0] if found else data, self._constant(value, (-1, 1, 1))]
                found.append(helper.make_node(op, inputs, [self._tensor()], name=name))
        return found

    def _weights(self) -> Array:
        """(group, phase, filter; depth; taps)."""
        plan, weights = self._plan, self._graph.constants[self._node.input[1]]
        filters = weights.shape[1]
        split = plan.columns.apart(plan.rows.apart(weights, 2), 4)
        groups = split.reshape(plan.groups, -1, filters, *split.shape[2:])
        turned = np.ascontiguousarray(groups.transpose(0, 4, 6, 2, 1, 3, 5))
        return turned.reshape(-1, turned.shape[4], plan.rows.spread, plan.columns.spread)

    def _constant(self, value: Array, shape: tuple[int, ...] = (-1,)) -> str:
        """One value a channel for the channels of all phases."""
        groups = value.reshape(self._plan.groups, 1, -1)
        wide = np.repeat(groups, self._plan.phases, axis=1).astype(np.float32)
        return self._graph.constant(f"{self._name}/constant", wide.reshape(shape))

    def _tensor(self) -> str:
        """A new tensor of all phases; its name."""
        n, c = self._graph.tensors[self._name].shape[:2]
        extents = (axis.blocks for axis in self._plan.axes)
        name = self._graph.fresh(f"{self._name}/phases")
        elem_type = self._graph.tensors[self._name].elem_type
        self._graph.tensors[name] = TensorInfo((n, c * self._plan.phases, *extents), elem_type)
        return name
