"""DeformConv as samples of its image where the offsets say, and a convolution of these."""

from __future__ import annotations

from math import prod

import numpy as np

from compiler.ir.graph import Array
from compiler.passes.legalize.writer import Writer, vector


def convolution(writer: Writer) -> bool:
    """DeformConv of images of float32, with or without a mask and groups.

    The samples of all taps are one image, tap below tap, that GridSample draws; beside each other as channels
    they are what a convolution of 1 x 1 takes. Pixels outside are zeros, as GridSample has it.
    """
    data, weights, offsets = (writer.info(place) for place in range(3))
    if data.dtype != "float32" or len(data.shape) != 4:
        writer.refuse("is computed for images of float32 only")
    n, c, h, w = data.shape
    k, _, kh, kw = weights.shape
    _, _, rows, columns = out = (n, k, *offsets.shape[2:])
    if writer.graph.tensors[writer.node.output[0]].shape != out:
        writer.refuse(f"has offsets of {list(offsets.shape)}, which do not fit its result")
    groups, taps = writer.attributes.get("offset_group", 1), kh * kw
    given = writer.constant(vector(n, groups * taps, 2, rows, columns))
    moved = writer.add("Reshape", writer.node.input[2], given)
    turned = writer.add("Transpose", moved, perm=[0, 1, 3, 4, 2])
    swapped = writer.add("Gather", turned, writer.constant(vector(1, 0)), axis=4)  # columns come first
    size = np.array([w, h], np.float32)
    drawn = writer.add("Mul", swapped, writer.constant(2 / size))
    places = (2 * _places(writer, kh, kw, rows, columns) + 1) / size - 1
    drawn = writer.add("Add", drawn, writer.constant(np.tile(places, (groups, 1, 1, 1)).astype(np.float32)))
    samples = [_sampled(writer, drawn, group, c // groups, taps * rows) for group in range(groups)]
    pieces = [
        writer.add("Reshape", each, writer.constant(vector(n, -1, taps, rows, columns))) for each in samples
    ]
    if writer.has(4):
        masks = writer.constant(vector(n, groups, taps, rows, columns))
        mask = writer.add("Reshape", writer.node.input[4], masks)
        pieces = [
            writer.add("Mul", each, _cut(writer, mask, 1, group, 1)) for group, each in enumerate(pieces)
        ]
    together = pieces[0] if groups == 1 else writer.add("Concat", *pieces, axis=1)
    wide = writer.add("Reshape", together, writer.constant(vector(n, c * taps, rows, columns)))
    flat = (k, prod(weights.shape[1:]), 1, 1)
    value = writer.value(1)
    filters = (
        writer.add("Reshape", writer.node.input[1], writer.constant(vector(*flat)))
        if value is None
        else writer.constant(value.reshape(flat))
    )
    bias = [writer.node.input[3]] if writer.has(3) else []
    writer.finish("Conv", wide, filters, *bias, group=writer.attributes.get("group", 1), kernel_shape=[1, 1])
    return True


def _places(writer: Writer, kh: int, kw: int, rows: int, columns: int) -> Array:
    """Column and row of the pixel that each tap takes where nothing is moved: [taps, rows, columns, 2]."""
    steps, spreads = (list(writer.attributes.get(name, [1, 1])) for name in ("strides", "dilations"))
    pads = list(writer.attributes.get("pads", [0, 0, 0, 0]))
    down, along = (
        np.arange(count) * step - pad + np.arange(extent)[:, np.newaxis] * spread
        for count, step, pad, extent, spread in zip(
            (rows, columns), steps, pads[:2], (kh, kw), spreads, strict=True
        )
    )
    shape = (kh, kw, rows, columns)
    y = np.broadcast_to(down[:, np.newaxis, :, np.newaxis], shape)
    x = np.broadcast_to(along[np.newaxis, :, np.newaxis, :], shape)
    return np.stack([x, y], -1).reshape(kh * kw, rows, columns, 2).astype(np.float64)


def _sampled(writer: Writer, drawn: str, group: int, channels: int, rows: int) -> str:
    """The samples of the channels of a ``group`` of offsets, tap below tap."""
    n, c, *_ = writer.info(0).shape
    places = writer.graph.tensors[drawn].shape
    data, mine = writer.node.input[0], drawn
    if channels < c:
        data = _cut(writer, data, 1, group * channels, channels)
        taps = places[1] * channels // c
        mine = _cut(writer, drawn, 1, group * taps, taps)
    grid = writer.add("Reshape", mine, writer.constant(vector(n, rows, places[3], 2)))
    return writer.add("GridSample", data, grid, mode="linear", padding_mode="zeros", align_corners=0)


def _cut(writer: Writer, data: str, axis: int, first: int, count: int) -> str:
    """``count`` elements of ``axis`` from ``first``."""
    limits = [writer.constant(vector(each)) for each in (first, first + count, axis)]
    return writer.add("Slice", data, *limits)
