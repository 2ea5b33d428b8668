"""Convolutions and pools of three spatial axes, as those of images that follow each other in the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto

from tuner.frontend.convolutions.runs import Run
from tuner.frontend.convolutions.transposed import Axis
from tuner.frontend.onnx_graph import Array, OnnxGraph, attributes_of
from tuner.frontend.own_nodes import FRAMES
from tuner.frontend.pooling import POOLS

PER_AXIS = ("kernel_shape", "strides", "dilations", "output_padding")
DEPTH = 2
"""The axis along which images follow each other."""
TURN = (0, 2, 1, 3, 4)
"""Depth before channels, and back."""


class Volumes:
    """(n, c, depth, h, w) as (n x depth, c, h, w).

    A convolution sums over the channels of as many images as its window is deep, so they are put beside each
    other as channels. What that copies is little beside the products.
    """

    rank = 5

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """See ``Form``."""
        n, c, depth, h, w = shape
        return (n * depth, c, h, w)

    def enter(self, run: Run, node: NodeProto, source: str, target: str) -> None:
        """See ``Form``."""
        n, c, depth, h, w = self._graph.tensors[source].shape
        if min(c, depth) > 1:
            turned = run.like(source, (n, depth, c, h, w))
            run.add(node, "Transpose", [source], turned, perm=TURN)
            source = turned
        run.reshape(node, source, target)

    def leave(self, run: Run, node: NodeProto, source: str, target: str) -> None:
        """See ``Form``."""
        n, c, depth, h, w = self._graph.tensors[target].shape
        if min(c, depth) == 1:
            run.reshape(node, source, target)
            return
        apart = run.like(target, (n, depth, c, h, w))
        run.reshape(node, source, apart)
        run.add(node, "Transpose", [apart], target, perm=TURN)

    def operand(self, value: Array) -> Array | None:
        """See ``Form``."""
        shape = (1,) * (self.rank - value.ndim) + value.shape
        return value.reshape(1, shape[1], *shape[3:]) if shape[0] == shape[DEPTH] == 1 else None

    def is_window(self, node: NodeProto) -> bool:
        """See ``Form``."""
        return node.op_type in ("Conv", "ConvTranspose", *POOLS)

    def takes(self, node: NodeProto) -> bool:
        """See ``Form``."""
        attributes, constants = attributes_of(node), self._graph.constants
        if node.op_type in ("Conv", "ConvTranspose"):
            known = all(name in constants for name in node.input[1:] if name)
            return known and (node.op_type == "Conv" or self._depth(node) is not None)
        if any(name in constants for name in node.input):
            return False
        if node.op_type == "Concat":
            return attributes["axis"] % self.rank not in (0, DEPTH)
        if node.op_type not in POOLS or max(attributes.get("dilations", (1,))) > 1:
            return False
        # Implementations differ on what the last windows count.
        return not (attributes.get("ceil_mode", 0) and attributes.get("count_include_pad", 0))

    def write(self, run: Run, node: NodeProto) -> None:
        """See ``Form``."""
        if node.op_type == "Concat":
            axis = attributes_of(node)["axis"] % self.rank
            inputs = [run.image(name) for name in node.input]
            run.again(node, inputs, run.image(node.output[0]), axis=axis - (axis > DEPTH))
        elif node.op_type == "Conv":
            self._convolution(run, node)
        elif node.op_type == "ConvTranspose":
            self._transposed(run, node)
        else:
            self._pool(run, node)

    def _convolution(self, run: Run, node: NodeProto) -> None:
        graph, attributes = self._graph, attributes_of(node)
        weights = graph.constants[node.input[1]]
        (n, _, depth, *_), taps = graph.tensors[node.input[0]].shape, weights.shape[2]
        out, groups = graph.tensors[node.output[0]].shape[DEPTH], attributes.get("group", 1)
        stride, pad = (attributes.get(name, (start,))[0] for name, start in (("strides", 1), ("pads", 0)))
        data = run.image(node.input[0])
        if taps > 1 or out != depth or pad:
            (_, c, h, w), source = graph.tensors[data].shape, data
            data = run.like(source, (n * out, taps * c, h, w))
            along = {"dilation": attributes.get("dilations", (1,))[0], "stride": stride, "groups": groups}
            run.add(node, FRAMES, [source], data, volumes=n, depth=out, taps=taps, pad=pad, **along)
        flat = weights.swapaxes(1, 2).reshape(weights.shape[0], -1, *weights.shape[3:])
        inputs = [data, graph.constant(f"{node.input[1]}/image", np.ascontiguousarray(flat))]
        run.again(node, [*inputs, *node.input[2:]], run.image(node.output[0]), **_in_plane(attributes))

    def _depth(self, node: NodeProto) -> Axis | None:
        """What a transposed convolution does along the depth; None where it is not written as others."""
        attributes, weights = attributes_of(node), self._graph.constants[node.input[1]]
        before, after = (self._graph.tensors[name].shape[DEPTH] for name in (node.input[0], node.output[0]))
        stride, dilation = (attributes.get(name, (1,))[0] for name in ("strides", "dilations"))
        depth = Axis(before, after, weights.shape[2], stride, dilation, attributes.get("pads", (0,))[0])
        grouped = attributes.get("group", 1) > 1 and stride > 1
        return None if grouped else depth

    def _transposed(self, run: Run, node: NodeProto) -> None:
        """One of images, whose channels have the depth's phases, which become images of their own."""
        graph, attributes, depth = self._graph, attributes_of(node), self._depth(node)
        assert depth is not None  # else the node were not taken
        weights, groups = graph.constants[node.input[1]], attributes.get("group", 1)
        source, target = run.image(node.input[0]), run.image(node.output[0])
        n, (_, c, h, w) = graph.tensors[node.input[0]].shape[0], graph.tensors[source].shape
        images = n * depth.blocks
        if depth.spread > 1 or depth.blocks != depth.extent or depth.pads[0]:
            data = run.like(source, (images, depth.spread * c, h, w))
            along = {"dilation": depth.step, "stride": 1, "groups": groups, "pad": depth.pads[0]}
            run.add(node, FRAMES, [source], data, volumes=n, depth=depth.blocks, taps=depth.spread, **along)
            source = data
        split = depth.apart(weights, 2)
        split = split.reshape(groups, -1, *split.shape[1:]).transpose(0, 3, 1, 4, 2, 5, 6)
        flat = split.reshape(-1, depth.stride * weights.shape[1], *weights.shape[3:])
        inputs = [source, graph.constant(f"{node.input[1]}/image", np.ascontiguousarray(flat))]
        for name in filter(None, node.input[2:]):
            inputs.append(graph.constant(f"{name}/image", np.tile(graph.constants[name], depth.stride)))
        _, c, h, w = graph.tensors[target].shape
        if depth.stride == 1:
            run.again(node, inputs, target, **_in_plane(attributes))
            return
        phases = run.like(source, (images, depth.stride * c, h, w))
        run.again(node, inputs, phases, **_in_plane(attributes))
        if depth.blocks * depth.stride == depth.out:
            run.reshape(node, phases, target)
            return
        every = run.like(source, (images * depth.stride, c, h, w))
        run.reshape(node, phases, every)
        along = {"dilation": 1, "stride": 1, "groups": 1, "taps": 1}
        run.add(node, FRAMES, [every], target, volumes=n, depth=depth.out, pad=-depth.cut, **along)

    def _pool(self, run: Run, node: NodeProto) -> None:
        """The largest of the largest, or the mean of means: first within images, then along them."""
        graph, attributes = self._graph, attributes_of(node)
        (n, c, depth, *_), (_, _, out, h, w) = (
            graph.tensors[name].shape for name in (node.input[0], node.output[0])
        )
        whole = node.op_type.startswith("Global")
        window = depth if whole else attributes["kernel_shape"][0]
        pads = attributes.get("pads", (0,) * 6)
        stride = attributes.get("strides", (1,))[0]
        source, target = run.image(node.input[0]), run.image(node.output[0])
        if window == out == depth == 1:
            run.again(node, [source], target, **_in_plane(attributes))
            return
        flat = run.like(source, (n * depth, c, h, w))
        run.again(node, [source], flat, **_in_plane(attributes))
        lines = run.like(source, (n, 1, depth, c * h * w))
        run.reshape(node, flat, lines)
        reduced = run.like(source, (n, 1, out, c * h * w))
        along = {name: value for name, value in attributes.items() if name not in (*PER_AXIS, "pads")}
        op = node.op_type.removeprefix("Global")
        ends = {"kernel_shape": (window, 1), "strides": (stride, 1), "pads": (pads[0], 0, pads[3], 0)}
        run.add(node, op, [lines], reduced, **along, **ends)
        run.reshape(node, reduced, target)


def _in_plane(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a window with depth that are about its rows and columns."""
    found = {name: attributes[name][1:] for name in PER_AXIS if name in attributes}
    if "pads" in attributes:
        _, top, left, _, bottom, right = attributes["pads"]
        found["pads"] = (top, left, bottom, right)
    return found
