"""Merge a Pad with zeros into the convolution behind it."""

from __future__ import annotations

from onnx import NodeProto, helper

from compiler.ir.graph import OnnxGraph, attributes_of


def merge_pads(graph: OnnxGraph) -> None:
    """Let every Conv behind a Pad with zeros read what the Pad reads."""
    made = {node.output[0]: node for node in graph.nodes if node.op_type == "Pad"}
    merged = False
    for node in graph.nodes:
        while node.op_type == "Conv" and (before := made.get(node.input[0])) is not None:
            widths = zeros_around(graph, before)
            if widths is None:
                break
            attributes = attributes_of(node)
            pads = attributes.get("pads", (0,) * len(widths))
            kept = [entry for entry in node.attribute if entry.name != "pads"]
            del node.attribute[:]
            both = [one + other for one, other in zip(pads, widths, strict=True)]
            node.attribute.extend([*kept, helper.make_attribute("pads", both)])
            node.input[0] = before.input[0]
            merged = True
    if merged:
        _drop_unread(graph, set(made))


def zeros_around(graph: OnnxGraph, node: NodeProto) -> list[int] | None:
    """What a Pad adds, as ``pads`` of a convolution; None for one that does anything else."""
    attributes = attributes_of(node)
    if attributes.get("mode", b"constant") != b"constant":
        return None
    rank = len(graph.tensors[node.input[0]].shape)
    if len(node.input) > 1:
        given = [graph.constants.get(name) if name else None for name in node.input[1:]]
        pads, fill, axes = [*given, None, None][:3]
        if pads is None or any(name and name not in graph.constants for name in node.input[2:]):
            return None
        widths, value = [int(width) for width in pads.reshape(-1)], 0.0 if fill is None else fill.item()
        along = range(rank) if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]
    else:
        widths = list(attributes.get("pads", attributes.get("paddings", ())))
        value, along = attributes.get("value", 0.0), range(rank)
    if value != 0 or len(widths) != 2 * len(along) or min(widths, default=0) < 0 or rank < 3:
        return None
    found = [0] * (2 * rank)
    for place, axis in enumerate(along):
        found[axis], found[axis + rank] = widths[place], widths[place + len(along)]
    starts, ends = found[:rank], found[rank:]
    return None if any(starts[:2] + ends[:2]) else starts[2:] + ends[2:]


def _drop_unread(graph: OnnxGraph, pads: set[str]) -> None:
    read = {name for node in graph.nodes for name in node.input} | set(graph.outputs)
    graph.nodes = [node for node in graph.nodes if node.output[0] not in pads or node.output[0] in read]
