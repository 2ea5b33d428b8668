"""Products of two activations, by functions of ours (``kernels/operators/matmul``)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from onnx import NodeProto

from kernels.emit.types import PrimFunc
from kernels.operators.matmul.emit import build_matmul
from kernels.operators.matmul.plan import MatMul
from kernels.operators.matmul.view import View
from kernels.target import Target
from tuner.frontend.onnx_graph import OnnxGraph, attributes_of
from tuner.operators.layouts import Generated

Shape = tuple[int, ...]


def matmul(graph: OnnxGraph, node: NodeProto) -> Generated:
    """See ``GENERATED``."""
    attributes = attributes_of(node)
    lie = tuple(graph.tensors[name].shape for name in (*node.input, *node.output))
    perms = split_perms(attributes["perms"], lie)
    left, right, result = (seen(shape, perm) for shape, perm in zip(lie, perms, strict=True))
    views = [view(shape, perm, len(result)) for shape, perm in zip(lie, perms, strict=True)]
    product = MatMul(
        result[:-2], left[-2], right[-1], left[-1], views[0], views[1], views[2], attributes["alpha"]
    )

    def build(_: str, target: Target, threads: int, name: str) -> PrimFunc:
        return build_matmul(product, (lie[0], lie[1], lie[2]), target, threads, name)

    sizes = (product.m, product.k, product.n)
    return Generated("matmul", (*sizes, digest(product, lie)), build, lie[2])


def split_perms(perms: Sequence[int], shapes: Sequence[Shape]) -> list[Shape]:
    """The order of axes of each of several arrays, which a node has one after another."""
    rest = iter(perms)
    return [tuple(next(rest) for _ in shape) for shape in shapes]


def seen(shape: Shape, perm: Shape) -> Shape:
    """The shape of an array with its axes in that order."""
    return tuple(shape[axis] for axis in perm)


def view(shape: Shape, perm: Shape, rank: int) -> View:
    """How the matrices of an array lie, for a batch of ``rank - 2`` axes that it is broadcast to."""
    dense, batch = View.of(shape, perm), seen(shape, perm)[:-2]
    strides = [0 if extent == 1 else step for extent, step in zip(batch, dense.batch, strict=True)]
    return replace(dense, batch=(0,) * (rank - 2 - len(strides)) + tuple(strides))


def digest(*facts: object) -> str:
    """What tells functions of the same sizes apart."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
