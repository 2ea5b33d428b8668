"""Transposed convolutions of weights that the model computes: a product, and the sum of its columns.

The product gives what each pixel of the data adds to each pixel of a window, and no zero stands between: a
zero would make NaN of an infinity.
"""

from __future__ import annotations

from math import prod

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph
from compiler.passes.legalize.blocks import Windows, added_up
from compiler.passes.legalize.writer import Writer, vector

RANKS = (3, 4, 5)
"""Of arrays that are computed as images."""


def write_products(graph: OnnxGraph) -> None:
    """Rewrite every ConvTranspose but those of float32 data by constant weights (``transposed.py``)."""
    nodes: list[NodeProto] = []
    for node in graph.nodes:
        writer = Writer(graph, node)
        if node.op_type == "ConvTranspose" and not _is_of_images(writer):
            _write(writer)
            nodes += writer.nodes
        else:
            nodes.append(node)
    graph.nodes = nodes


def _is_of_images(writer: Writer) -> bool:
    data, *others = (name in writer.graph.constants for name in writer.node.input if name)
    info = writer.info(0)
    return all(others) and not data and info.dtype == "float32" and len(info.shape) in RANKS


def _write(writer: Writer) -> None:
    (n, c, *extents), (_, filters, *taps) = (writer.info(at).shape for at in range(2))
    channels, *size = writer.graph.tensors[writer.node.output[0]].shape[1:]
    groups, ones = writer.attributes.get("group", 1), [1] * len(taps)
    steps, spreads = (writer.attributes.get(name, ones) for name in ("strides", "dilations"))
    pads = writer.attributes.get("pads", [0] * 2 * len(taps))[: len(taps)]
    of_groups = writer.constant(vector(groups, c // groups, filters * prod(taps)))
    weights = writer.add("Reshape", writer.node.input[1], of_groups)
    pixels = writer.constant(vector(n, groups, c // groups, prod(extents)))
    data = writer.add("Reshape", writer.node.input[0], pixels)
    columns = writer.add("MatMul", writer.add("Transpose", weights, perm=[0, 2, 1]), data)
    windows = Windows(tuple(taps), tuple(extents), tuple(steps), tuple(spreads), tuple(pads))
    made = added_up(writer, columns, (n, channels, *size), windows)
    if writer.has(2):
        wide = writer.constant(vector(1, channels, *ones))
        writer.finish("Add", made, writer.add("Reshape", writer.node.input[2], wide))
    else:
        writer.nodes[-1].output[0] = writer.node.output[0]
