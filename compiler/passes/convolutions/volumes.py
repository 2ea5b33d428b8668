"""Three-dimensional convolutions and pools, as images that follow each other in the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto

from compiler.analysis.pooling import POOLS
from compiler.ir.graph import Array, OnnxGraph, attributes_of
from compiler.ir.own_nodes import FRAMES
from compiler.passes.convolutions.runs import Run
from compiler.passes.convolutions.transposed import Axis, Part

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
            return all(name in constants for name in node.input[1:] if name)
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

    def _depth(self, node: NodeProto) -> Axis:
        """What a transposed convolution does along the depth."""
        attributes, weights = attributes_of(node), self._graph.constants[node.input[1]]
        before, after = (self._graph.tensors[name].shape[DEPTH] for name in (node.input[0], node.output[0]))
        stride, dilation = (attributes.get(name, (1,))[0] for name in ("strides", "dilations"))
        return Axis(before, after, weights.shape[2], stride, dilation, attributes.get("pads", (0,))[0])

    def _transposed(self, run: Run, node: NodeProto) -> None:
        """One of images for each part of the depth's phases: its channels have those, which become images."""
        graph, attributes, depth = self._graph, attributes_of(node), self._depth(node)
        source, target = run.image(node.input[0]), run.image(node.output[0])
        images = graph.tensors[node.input[0]].shape[0] * depth.blocks
        _, c, h, w = graph.tensors[target].shape
        made: list[str] = []
        groups = attributes.get("group", 1)
        # Of groups, a part for each phase: its images have the channels of all groups.
        parts = [each for part in depth.parts for each in (part.alone if groups > 1 else [part])]
        for part in parts:
            made.append(target if depth.stride == 1 else run.like(source, (images, part.phases * c, h, w)))
            if not part.spread:
                self._nothing(run, node, part, made[-1])
                continue
            weights = part.apart(graph.constants[node.input[1]], 2)
            split = weights.reshape(groups, -1, *weights.shape[1:]).transpose(0, 3, 1, 4, 2, 5, 6)
            flat = split.reshape(-1, part.phases * weights.shape[1], *weights.shape[4:])
            data = self._frames(run, node, depth, part)
            inputs = [data, graph.constant(f"{node.input[1]}/image", np.ascontiguousarray(flat))]
            for name in filter(None, node.input[2:]):
                inputs.append(graph.constant(f"{name}/image", np.tile(graph.constants[name], part.phases)))
            run.again(node, inputs, made[-1], **_in_plane(attributes))
        if depth.stride == 1:
            return
        phases = made[0]
        if len(made) > 1:
            phases = run.like(source, (images, depth.stride * c, h, w))
            run.add(node, "Concat", made, phases, axis=1)
        if depth.blocks * depth.stride == depth.out:
            run.reshape(node, phases, target)
            return
        every = run.like(source, (images * depth.stride, c, h, w))
        run.reshape(node, phases, every)
        along = {"dilation": 1, "stride": 1, "groups": 1, "taps": 1}
        volumes = graph.tensors[node.input[0]].shape[0]
        run.add(node, FRAMES, [every], target, volumes=volumes, depth=depth.out, pad=-depth.cut, **along)

    def _frames(self, run: Run, node: NodeProto, depth: Axis, part: Part) -> str:
        """The data, beside each other as channels what ``part`` of the depth's phases sees."""
        source = run.image(node.input[0])
        before = part.before(depth.first)
        if part.spread == 1 and depth.blocks == depth.extent and not before:
            return source
        n, (_, c, h, w) = self._graph.tensors[node.input[0]].shape[0], self._graph.tensors[source].shape
        data = run.like(source, (n * depth.blocks, part.spread * c, h, w))
        along = {"dilation": part.step, "stride": 1, "groups": attributes_of(node).get("group", 1)}
        along |= {"pad": before, "volumes": n, "depth": depth.blocks, "taps": part.spread}
        run.add(node, FRAMES, [source], data, **along)
        return data

    def _nothing(self, run: Run, node: NodeProto, part: Part, target: str) -> None:
        """Phases that see nothing of the data: the bias alone."""
        shape = self._graph.tensors[target].shape
        biases = [self._graph.constants[name] for name in node.input[2:] if name]
        bias = np.tile(biases[0], part.phases) if biases else np.zeros(shape[1], np.float32)
        inputs = [
            self._graph.constant("bias", bias.reshape(-1, 1, 1)),
            self._graph.constant("shape", np.array(shape)),
        ]
        run.add(node, "Expand", inputs, target)

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
