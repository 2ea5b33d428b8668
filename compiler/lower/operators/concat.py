"""Concat along the channels, by functions of ours in every layout (``kernels/operators/concat.py``)."""

from __future__ import annotations

from functools import partial

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.lower.operators.layouts import Generated, Rule, if_images
from kernels.operators.concat import build_concat, out_shape, predict_concat
from kernels.target import Target


def concat_rule(graph: OnnxGraph, node: NodeProto, target: Target, threads: int) -> Rule | None:
    """All inputs in one layout."""
    if attributes_of(node).get("axis") not in (1, -3):
        return None
    shapes = tuple(graph.tensors[name].shape for name in node.input)
    seconds = partial(predict_concat, shapes, target=target, threads=threads)
    whole, channels = out_shape(shapes), [shape[1] for shape in shapes]
    function = Generated("concat", (*whole, "of", *channels), partial(build_concat, shapes), whole)
    return if_images(graph, node.input, seconds, function)
