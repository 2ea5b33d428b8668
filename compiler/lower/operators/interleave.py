"""Pixels made of channels, by functions of ours in every layout (``kernels/operators/interleave.py``)."""

from __future__ import annotations

from functools import partial

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.lower.operators.layouts import Generated, Rule, if_images
from kernels.arithmetic import ceil_div
from kernels.operators.interleave import Interleave, build_interleave, predict_interleave
from kernels.target import Target


def interleave_rule(graph: OnnxGraph, node: NodeProto, target: Target, threads: int) -> Rule | None:
    """Our own node, of a transposed convolution."""
    attributes = attributes_of(node)
    steps, crop = attributes["steps"], attributes["crop"]
    parts = tuple(attributes["down"]), tuple(attributes["right"])
    n, c, *extents = out = graph.tensors[node.output[0]].shape
    each_step = zip(extents, crop, steps, strict=True)
    pixels = [ceil_div(cut + extent, step) for extent, cut, step in each_step]
    shape = (n, c * steps[0] * steps[1], *pixels)
    each = Interleave(shape, out, (steps[0], steps[1]), attributes["run"], (crop[0], crop[1]), parts)
    return _rule(graph, node, each, target, threads)


def depth_to_space_rule(graph: OnnxGraph, node: NodeProto, target: Target, threads: int) -> Rule | None:
    """DepthToSpace in both modes."""
    attributes = attributes_of(node)
    block = attributes["blocksize"]
    shape, out = (graph.tensors[name].shape for name in (node.input[0], node.output[0]))
    run = 1 if attributes.get("mode", b"DCR") == b"CRD" else out[1]
    return _rule(graph, node, Interleave(shape, out, (block, block), run), target, threads)


def _rule(graph: OnnxGraph, node: NodeProto, each: Interleave, target: Target, threads: int) -> Rule | None:
    seconds = partial(predict_interleave, each, target=target, threads=threads)
    numbers: tuple[int | str, ...] = (*each.shape, "to", *each.out, *each.steps, *each.crop, each.run)
    if any(len(part) > 1 for part in each.parts):
        numbers = (*numbers, "of", *each.parts[0], "by", *each.parts[1])
    function = Generated("interleave", numbers, partial(build_interleave, each), each.out)
    return if_images(graph, node.input, seconds, function)
