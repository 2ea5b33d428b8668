"""Images put beside each other as channels, by functions of ours (``kernels/operators/frames.py``)."""

from __future__ import annotations

from functools import partial

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.lower.operators.layouts import Generated, Rule, if_images
from kernels.operators.frames import Frames, build_frames, predict_frames
from kernels.target import Target

NUMBERS = ("volumes", "depth", "taps", "stride", "dilation", "pad", "groups")


def frames_rule(graph: OnnxGraph, node: NodeProto, target: Target, threads: int) -> Rule | None:
    """Our own node, of a convolution over depth."""
    attributes, shape = attributes_of(node), graph.tensors[node.input[0]].shape
    given = {name: attributes[name] for name in NUMBERS}
    each = Frames(shape, **given)
    seconds = partial(predict_frames, each, target=target, threads=threads)
    numbers = (*shape, "by", *given.values())
    return if_images(
        graph, node.input[:1], seconds, Generated("frames", numbers, partial(build_frames, each), each.out)
    )
