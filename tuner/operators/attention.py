"""Attentions, by functions of ours (``kernels/operators/attention``)."""

from __future__ import annotations

import math
from dataclasses import replace

from onnx import NodeProto

from kernels.emit.types import PrimFunc
from kernels.operators.attention.emit import build_attention
from kernels.operators.attention.plan import Attention
from kernels.operators.matmul.view import View
from kernels.target import Target
from tuner.frontend.onnx_graph import OnnxGraph, attributes_of
from tuner.operators.layouts import Generated
from tuner.operators.matmul import Shape, digest, seen, split_perms, view


def attention(graph: OnnxGraph, node: NodeProto) -> Generated:
    """See ``GENERATED``."""
    attributes = attributes_of(node)
    queries, keys, values, *masks, out = (graph.tensors[name].shape for name in (*node.input, *node.output))
    lie = (queries, keys, values, out)
    perms = split_perms(attributes["perms"], lie)
    shapes = [seen(shape, perm) for shape, perm in zip(lie, perms, strict=True)]
    rank, batch = len(shapes[3]), shapes[3][:-2]
    views = [view(shape, perm, rank) for shape, perm in zip(lie, perms, strict=True)]
    mask = _mask(masks[0], rank) if masks else None
    fewest = min(shapes[1][-3], shapes[2][-3]) if batch else 1
    if batch and 1 < fewest < batch[-1]:
        group = batch[-1] // fewest
        batch = (*batch[:-1], fewest, group)
        views = [_grouped(each, group, shape[-3] > fewest) for each, shape in zip(views, shapes, strict=True)]
        mask = None if mask is None else _grouped(mask, group, True)
    (rows, depth), (count, width) = shapes[0][-2:], shapes[2][-2:]
    what = Attention(
        batch,
        rows,
        count,
        depth,
        width,
        views[0],
        views[1],
        views[2],
        views[3],
        mask=mask,
        scale=attributes["scale"],
        alpha=attributes["alpha"],
        causal=None if attributes["causal"] < 0 else attributes["causal"],
        empty=0.0 if attributes["zeros"] else math.nan,
    )
    arrays = (queries, keys, values, *masks, out)

    def build(_: str, target: Target, threads: int, name: str) -> PrimFunc:
        return build_attention(what, arrays, target, threads, name)

    return Generated("attention", (rows, count, depth, width, digest(what, arrays)), build, out)


def _mask(shape: Shape, rank: int) -> View:
    """How a mask lies that is broadcast to scores of that rank, its rows and columns as well."""
    whole = (1,) * (rank - len(shape)) + shape
    dense = view(whole, tuple(range(rank)), rank)
    steps = [
        0 if extent == 1 else step for extent, step in zip(whole[-2:], (dense.row, dense.column), strict=True)
    ]
    return replace(dense, row=steps[0], column=steps[1])


def _grouped(view: View, group: int, many: bool) -> View:
    """A view whose last axis of the batch is heads, with one more for those that share keys and values.

    ``many``: it has all of these heads, not one of each group.
    """
    *rest, step = view.batch
    return replace(view, batch=(*rest, step * group, step) if many else (*rest, step, 0))
