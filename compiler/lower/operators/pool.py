"""Poolings, by functions of ours in every layout (``kernels/operators/pool.py``)."""

from __future__ import annotations

from functools import partial

from onnx import NodeProto

from compiler.analysis.pooling import pool_geometry
from compiler.ir.graph import OnnxGraph
from compiler.lower.operators.layouts import Generated, Rule, if_images
from kernels.operators.pool import build_pool, predict_pool
from kernels.target import Target


def pool_rule(graph: OnnxGraph, node: NodeProto, target: Target, threads: int) -> Rule | None:
    """A pooling that our kernels compute."""
    pool = pool_geometry(graph, node)
    if pool is None:
        return None
    numbers = (*pool.shape, *pool.out, *pool.window, *pool.stride, *pool.pad, int(pool.counted))
    function = Generated(f"{pool.kind}_pool", numbers, partial(build_pool, pool), pool.out_shape)
    seconds = partial(predict_pool, pool, target=target, threads=threads)
    return if_images(graph, node.input[:1], seconds, function)
