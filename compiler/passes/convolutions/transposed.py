"""Transposed convolutions, as convolutions of stride 1 with channels that become pixels.

With strides s each s x s pixels of the result, its phases, see the same pixels of the data, each through
weights of its own. So a convolution computes phases as its channels, over the data's pixels, and an
interleaving spreads them. Phases of as many taps have one convolution together, and no zeros stand for taps
that others have: those would make NaN of infinities that a phase does not see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.checks import node_name
from compiler.ir.graph import Array, OnnxGraph, TensorInfo, attributes_of
from compiler.ir.own_nodes import INTERLEAVE
from compiler.passes.epilogues.epilogue import Chain, Wiring

MANY = 16
"""Channels of a result from which on convolutions of fewer phases each are worth what they leave out: with
8, 16 and 32 and filters of 4x4, +10, -6 and -12 % by the simulated clock of a Cortex-A72."""


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
    Where it ``is_split``, phases that the first block does not have are apart from the others, so that no
    convolution computes them there.
    """

    extent: int
    out: int
    taps: int
    stride: int
    dilation: int
    pad: int
    is_split: bool = False

    @property
    def first(self) -> int:
        """The first block that has something that is wanted."""
        return self.pad // self.stride

    @property
    def last(self) -> int:
        """The last of them."""
        return (self.out - 1 + self.pad) // self.stride

    @property
    def blocks(self) -> int:
        """How many blocks are computed."""
        return self.last - self.first + 1

    @property
    def cut(self) -> int:
        """How many phases of the first of them are left out."""
        return self.pad % self.stride

    @cached_property
    def parts(self) -> list[Part]:
        """All phases in order, neighbours together that see the same pixels."""
        by_phase: list[list[int]] = [[] for _ in range(self.stride)]
        for tap in range(self.taps):
            by_phase[tap * self.dilation % self.stride].append(tap)
        found: list[Part] = []
        for phase, taps in enumerate(by_phase):
            begin = taps[0] * self.dilation // self.stride if taps else 0
            alike = found and (found[-1].begin, found[-1].spread) == (begin, len(taps))
            if alike and not (self.is_split and phase == self.cut):
                found[-1].taps.append(taps)
            else:
                found.append(Part(self, phase, [taps], begin))
        return found


@dataclass(frozen=True)
class Part:
    """Phases of ``axis`` from ``start`` on that see the same pixels: ``taps`` of each, the first of them
    ``begin`` pixels back."""

    axis: Axis
    start: int
    taps: list[list[int]]
    begin: int

    @property
    def phases(self) -> int:
        """How many."""
        return len(self.taps)

    @property
    def spread(self) -> int:
        """Taps of the convolution."""
        return len(self.taps[0])

    @property
    def step(self) -> int:
        """Its dilation."""
        return self.axis.dilation // gcd(self.axis.dilation, self.axis.stride) if self.spread > 1 else 1

    @property
    def first(self) -> int:
        """The first block in which one of its phases is wanted."""
        return self.axis.first + (self.start + self.phases <= self.axis.cut)

    @property
    def last(self) -> int:
        """The last of them."""
        end = (self.axis.out - 1 + self.axis.pad) % self.axis.stride
        return max(self.first, self.axis.last - (self.start > end))

    @property
    def blocks(self) -> int:
        """How many blocks are computed."""
        return self.last - self.first + 1

    @property
    def alone(self) -> list[Part]:
        """A part for each of its phases."""
        return [replace(self, start=self.start + at, taps=[taps]) for at, taps in enumerate(self.taps)]

    def before(self, block: int) -> int:
        """The padding before the data, where ``block`` is the first; negative where it skips some."""
        return (self.spread - 1) * self.step + self.begin - block

    @property
    def pads(self) -> tuple[int, int]:
        """Its padding; negative where it does not read all of the data."""
        return self.before(self.first), self.last - self.begin - self.axis.extent + 1

    @property
    def unread(self) -> tuple[int, int]:
        """How much of the data it does not read, at the beginning and at the end."""
        return max(0, -self.pads[0]), max(0, -self.pads[1])

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the data is in its results."""
        return self.spread == 0 or sum(self.unread) >= self.axis.extent

    def apart(self, weights: Array, axis: int) -> Array:
        """``weights`` with their ``axis`` as two: taps of the convolution, phases."""
        return np.take(weights, np.array(self.taps)[:, ::-1].T, axis)


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
        Axis(
            info.shape[axis + 2],
            out[axis + 2],
            taps[axis],
            strides[axis],
            dilations[axis],
            pads[axis],
            is_split=out[1] >= MANY,
        )
        for axis in (0, 1)
    )
    return _Plan(rows, columns, attributes.get("group", 1))


Pair = tuple[Part, Part]
"""Of the rows and of the columns."""


class _Writer:
    """Writes one transposed convolution, with what follows it, as other nodes."""

    def __init__(self, graph: OnnxGraph, node: NodeProto, plan: _Plan) -> None:
        self._graph, self._node, self._plan = graph, node, plan
        self._name = node.output[0]

    def nodes(self, chain: Chain) -> list[NodeProto]:
        rows, columns = self._plan.axes
        found: list[NodeProto] = []
        phases: list[str] = []
        for pair in ((down, right) for down in rows.parts for right in columns.parts):
            at = self._tensor(pair) if self._plan.is_spread else chain.output
            empty = any(part.is_empty for part in pair)
            found += self._nothing(pair, at) if empty else self._convolution(pair, at)
            for before, after in zip(chain.nodes, chain.nodes[1:], strict=False):
                for made in self._single(before, after, at, pair):
                    found.append(made)
                    at = made.output[0]
            phases.append(at)
        if not self._plan.is_spread:
            return found
        made = helper.make_node(
            INTERLEAVE,
            phases,
            [chain.output],
            name=node_name(self._node),
            steps=[axis.stride for axis in self._plan.axes],
            run=self._graph.tensors[self._name].shape[1] // self._plan.groups,
            crop=[axis.cut for axis in self._plan.axes],
            down=[part.phases for part in rows.parts],
            right=[part.phases for part in columns.parts],
        )
        return [*found, made]

    def _convolution(self, pair: Pair, output: str) -> list[NodeProto]:
        graph, node = self._graph, self._node
        (top, bottom), (left, right) = ([max(0, pad) for pad in part.pads] for part in pair)
        data, found = self._read(pair)
        inputs = [data, graph.constant(f"{self._name}/phases", self._weights(pair))]
        if len(node.input) > 2 and node.input[2]:
            inputs.append(self._constant(graph.constants[node.input[2]], pair))
        made = helper.make_node(
            "Conv",
            inputs,
            [output],
            name=node_name(node),
            group=self._plan.groups,
            pads=[top, left, bottom, right],
            dilations=[part.step for part in pair],
        )
        return [*found, made]

    def _nothing(self, pair: Pair, output: str) -> list[NodeProto]:
        """The bias alone."""
        graph, node = self._graph, self._node
        channels = graph.tensors[self._name].shape[1]
        has_bias = len(node.input) > 2 and node.input[2]
        bias = graph.constants[node.input[2]] if has_bias else np.zeros(channels, np.float32)
        shape = np.array(graph.tensors[output].shape, np.int64)
        inputs = [self._constant(bias, pair, (1, -1, 1, 1)), graph.constant(f"{self._name}/shape", shape)]
        return [helper.make_node("Expand", inputs, [output], name=node_name(node))]

    def _read(self, pair: Pair) -> tuple[str, list[NodeProto]]:
        """The data that are read, and the nodes that cut them out."""
        graph, data = self._graph, self._node.input[0]
        unread = [part.unread for part in pair]
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

    def _single(self, before: NodeProto, after: NodeProto, data: str, pair: Pair) -> list[NodeProto]:
        """What ``after`` does to each element of ``before``, done to ``data``, the phases of ``pair``."""
        name, alone = node_name(after), Chain(self._graph, before, channel_axis=1)
        if not alone.absorb_affine(after):
            inputs = [data, *after.input[1:]]
            made = helper.make_node(after.op_type, inputs, [self._tensor(pair)], name=name)
            made.attribute.extend(after.attribute)
            return [made]
        found: list[NodeProto] = []
        for op, value in (("Mul", alone.scale), ("Add", alone.shift)):
            if value is not None:
                wide = self._constant(value, pair, (-1, 1, 1))
                inputs = [found[-1].output[0] if found else data, wide]
                found.append(helper.make_node(op, inputs, [self._tensor(pair)], name=name))
        return found

    def _weights(self, pair: Pair) -> Array:
        """(group, phase, filter; depth; taps)."""
        (down, right), weights = pair, self._graph.constants[self._node.input[1]]
        filters = weights.shape[1]
        split = right.apart(down.apart(weights, 2), 4)
        groups = split.reshape(self._plan.groups, -1, filters, *split.shape[2:])
        turned = np.ascontiguousarray(groups.transpose(0, 4, 6, 2, 1, 3, 5))
        return turned.reshape(-1, turned.shape[4], down.spread, right.spread)

    def _constant(self, value: Array, pair: Pair, shape: tuple[int, ...] = (-1,)) -> str:
        """One value a channel for the channels of all phases of ``pair``."""
        groups = value.reshape(self._plan.groups, 1, -1)
        wide = np.repeat(groups, pair[0].phases * pair[1].phases, axis=1).astype(np.float32)
        return self._graph.constant(f"{self._name}/constant", wide.reshape(shape))

    def _tensor(self, pair: Pair) -> str:
        """A new tensor of the phases of ``pair``; its name."""
        n, c = self._graph.tensors[self._name].shape[:2]
        extents = (part.blocks for part in pair)
        name = self._graph.fresh(f"{self._name}/phases")
        elem_type = self._graph.tensors[self._name].elem_type
        self._graph.tensors[name] = TensorInfo((n, c * pair[0].phases * pair[1].phases, *extents), elem_type)
        return name
