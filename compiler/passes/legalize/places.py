"""Operators that say where elements go, as a Gather by a table or the convolution that does the same."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import helper

from compiler.ir.checks import node_name
from compiler.ir.own_nodes import PLACES
from compiler.passes.legalize.blocks import Windows, added_up
from compiler.passes.legalize.windows import pads_of
from compiler.passes.legalize.writer import Writer, vector


def reverse(writer: Writer) -> bool:
    """ReverseSequence: of each row as many steps as it has, as a Gather from all steps of all rows."""
    shape = writer.info(0).shape
    time, batch = (writer.attributes.get(name, at) for at, name in enumerate(("time_axis", "batch_axis")))
    if {time, batch} != {0, 1}:
        writer.refuse(f"needs the axes 0 and 1 for time and batch, and has {time} and {batch}")
    rows_first = batch == 0
    steps, rows = (shape[1], shape[0]) if rows_first else (shape[0], shape[1])
    step, row = np.arange(steps)[None], np.arange(rows)[:, None]
    turn = (1, rows) if rows_first else (rows, 1)
    if writer.info(1).shape != (rows,):
        writer.refuse(f"has lengths of {list(writer.info(1).shape)} for {rows} rows")
    lengths = writer.bounded(writer.node.input[1], 0, steps, "a length")
    lengths = writer.add("Reshape", lengths, writer.constant(vector(rows, 1)))
    last = writer.add("Sub", lengths, writer.constant(np.array([[1]])))
    back = writer.add("Sub", last, writer.constant(step))
    inside = writer.add("Less", writer.constant(step), lengths)
    from_where = writer.add("Where", inside, back, writer.constant(step))
    scale, start = (turn[0], row * steps) if rows_first else (rows, row)
    at = writer.add("Mul", from_where, writer.constant(np.array([[scale]])))
    at = writer.add("Add", at, writer.constant(start))
    if not rows_first:
        at = writer.add("Transpose", at, perm=[1, 0])
    flat = writer.add("Reshape", writer.node.input[0], writer.constant(vector(steps * rows, *shape[2:])))
    writer.finish("Gather", flat, at, axis=0)
    return True


def unpooled(writer: Writer) -> bool:
    """MaxUnpool: a scatter into zeros."""
    out, dtype = writer.graph.tensors[writer.node.output[0]].shape, writer.info(0).dtype
    shapes = [writer.info(at).shape for at in range(2)]
    if shapes[0] != shapes[1]:
        writer.refuse(f"has data of {list(shapes[0])} and places of {list(shapes[1])}")
    whole = writer.constant(vector(-1))
    data = writer.add("Reshape", writer.node.input[0], whole)
    places = writer.bounded(writer.node.input[1], 0, prod(out) - 1, "an index")
    places = writer.add("Reshape", places, whole)
    zeros = writer.constant(np.zeros(prod(out), dtype))
    made = writer.add("ScatterElements", zeros, places, data, axis=0)
    writer.finish("Reshape", made, writer.constant(vector(*out)))
    return True


def images(writer: Writer) -> bool:
    """Col2Im: blocks added up where they lie."""
    info, out = writer.info(0), writer.graph.tensors[writer.node.output[0]].shape
    block = writer.value(2)
    if block is None or np.dtype(info.dtype).kind not in "fiu":
        writer.refuse("has computed sizes, or data that are no numbers")
    kernel, size = [int(each) for each in block], out[2:]
    ones = [1] * len(kernel)
    spreads, steps = (writer.attributes.get(name, ones) for name in ("dilations", "strides"))
    pads = writer.attributes.get("pads", [0] * 2 * len(kernel))
    counts = [
        (extent + before + after - spread * (taps - 1) - 1) // step + 1
        for extent, before, after, spread, taps, step in zip(
            size, pads[: len(kernel)], pads[len(kernel) :], spreads, kernel, steps, strict=True
        )
    ]
    windows = Windows(tuple(kernel), tuple(counts), tuple(steps), tuple(spreads), tuple(pads[: len(kernel)]))
    writer.finish("Identity", added_up(writer, writer.node.input[0], out, windows))
    return True


def greatest(writer: Writer) -> bool:
    """A MaxPool that says where its results were: itself, and a node of ours for the places."""
    outputs = list(writer.node.output)
    if len(outputs) < 2 or not outputs[1] or writer.attributes.get("storage_order", 0):
        return False
    pads = pads_of(writer) or writer.attributes.get("pads", [0] * 2 * (len(writer.info(0).shape) - 2))
    del writer.node.output[1:]
    writer.with_attributes(auto_pad=None, pads=pads)
    rank = len(pads) // 2
    window: dict[str, Any] = {
        name: list(writer.attributes.get(name, [1] * rank))
        for name in ("kernel_shape", "strides", "dilations")
    }
    data, name = [writer.node.input[0]], node_name(writer.node)
    if not outputs[0]:
        writer.nodes.clear()
    writer.nodes.append(helper.make_node(PLACES, data, outputs[1:2], name=name, pads=pads, **window))
    return True
