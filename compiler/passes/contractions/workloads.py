"""Workloads of products of activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph, attributes_of
from kernels.workload.base import Attention, MatMul, View

Shape = tuple[int, ...]


def matmul_of(graph: OnnxGraph, node: NodeProto) -> tuple[MatMul, tuple[str, ...]]:
    """The product that a ``MATMUL`` node computes, and the tensors that it takes."""
    attributes = attributes_of(node)
    lie = tuple(graph.tensors[name].shape for name in (*node.input, *node.output))
    perms = _split_perms(attributes["perms"], lie)
    left, right, result = (_seen(shape, perm) for shape, perm in zip(lie, perms, strict=True))
    views = [_view(shape, perm, len(result)) for shape, perm in zip(lie, perms, strict=True)]
    sizes = (left[-2], right[-1], left[-1])
    product = MatMul(result[:-2], *sizes, views[0], views[1], views[2], attributes["alpha"])
    made, crossed = product.canonical()
    return made, tuple(reversed(node.input) if crossed else node.input)


def attention_of(graph: OnnxGraph, node: NodeProto) -> tuple[Attention, tuple[str, ...]]:
    """What an ``ATTENTION`` node computes, and the tensors that it takes."""
    attributes = attributes_of(node)
    queries, keys, values, *masks, out = (graph.tensors[name].shape for name in (*node.input, *node.output))
    lie = (queries, keys, values, out)
    perms = _split_perms(attributes["perms"], lie)
    shapes = [_seen(shape, perm) for shape, perm in zip(lie, perms, strict=True)]
    rank, batch = len(shapes[3]), shapes[3][:-2]
    views = [_view(shape, perm, rank) for shape, perm in zip(lie, perms, strict=True)]
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
        zeros=bool(attributes["zeros"]),
    )
    return what.canonical(), tuple(node.input)


def _split_perms(perms: Sequence[int], shapes: Sequence[Shape]) -> list[Shape]:
    """The order of axes of each of several arrays, which a node has one after another."""
    rest = iter(perms)
    return [tuple(next(rest) for _ in shape) for shape in shapes]


def _seen(shape: Shape, perm: Shape) -> Shape:
    """The shape of an array with its axes in that order."""
    return tuple(shape[axis] for axis in perm)


def _view(shape: Shape, perm: Shape, rank: int) -> View:
    """How the matrices of an array lie, for a batch of ``rank - 2`` axes that it is broadcast to."""
    dense, batch = View.of(shape, perm), _seen(shape, perm)[:-2]
    strides = [0 if extent == 1 else step for extent, step in zip(batch, dense.batch, strict=True)]
    return replace(dense, batch=(0,) * (rank - 2 - len(strides)) + tuple(strides))


def _mask(shape: Shape, rank: int) -> View:
    """How a mask lies that is broadcast to scores of that rank, its rows and columns as well."""
    whole = (1,) * (rank - len(shape)) + shape
    dense = _view(whole, tuple(range(rank)), rank)
    steps = [
        0 if extent == 1 else step for extent, step in zip(whole[-2:], (dense.row, dense.column), strict=True)
    ]
    return replace(dense, row=steps[0], column=steps[1])


def _grouped(view: View, group: int, many: bool) -> View:
    """A view with heads as the last axis of the batch, and one axis for those that share keys and values.

    ``many``: it has all of these heads, not one of each group.
    """
    *rest, step = view.batch
    return replace(view, batch=(*rest, step * group, step) if many else (*rest, step, 0))
