"""Topological sort: makers come before readers. onnxruntime does not ask this of a model."""

from __future__ import annotations

import heapq

from onnx import ModelProto

from compiler.ir.checks import ModelError, node_name
from compiler.ir.names import reads


def sort(model: ModelProto) -> None:
    """Put every node behind those that it depends on, in place, and otherwise leave them as they are.

    Raises ModelError that names a node that depends on itself.
    """
    nodes = list(model.graph.node)
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = [{makers[name] for name in reads(node) if name in makers} for node in nodes]
    if all(index > max(before, default=-1) for index, before in enumerate(needs)):
        return
    readers: list[list[int]] = [[] for _ in nodes]
    for index, before in enumerate(needs):
        for maker in before:
            readers[maker].append(index)
    missing = [len(before) for before in needs]
    ready = [index for index, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for index in readers[order[-1]]:
            missing[index] -= 1
            if not missing[index]:
                heapq.heappush(ready, index)
    if len(order) < len(nodes):
        node = nodes[next(index for index, count in enumerate(missing) if count)]
        raise ModelError(f"node {node_name(node)!r} ({node.op_type}) depends on its own result")
    del model.graph.node[:]
    model.graph.node.extend(nodes[index] for index in order)
