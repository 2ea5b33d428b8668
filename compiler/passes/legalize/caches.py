"""Caches of keys and values, as a scatter of rows."""

from __future__ import annotations

import numpy as np

from compiler.passes.legalize.writer import Writer, vector


def written(writer: Writer) -> bool:
    """TensorScatter: each row of an update comes to its place along an axis of a cache, from a place of its
    batch on."""
    cache, update = writer.info(0).shape, writer.info(1).shape
    axis = writer.attributes.get("axis", -2) % len(cache)
    batch, extent, rows = cache[0], cache[axis], update[axis]
    if rows > extent:
        writer.refuse(f"writes {rows} rows into an axis of {extent}")
    mode = writer.attributes.get("mode", b"linear").decode()
    if mode not in ("circular", "linear"):
        writer.refuse(f"has the mode {mode!r}; there are circular and linear")
    if 0 in update:
        writer.finish("Identity", writer.node.input[0])
        return True
    behind = np.arange(rows).reshape(*[1] * axis, rows, 1)
    if writer.has(2):
        first = writer.node.input[2]
        most = (extent if mode == "linear" else np.iinfo(np.int64).max) - rows
        first = writer.bounded(first, 0, int(most), "a place")
        first = writer.add("Reshape", first, writer.constant(vector(batch, *[1] * (axis + 1))))
        at = writer.add("Add", first, writer.constant(behind))
        if mode == "circular":
            at = writer.add("Mod", at, writer.constant(np.array(extent)))
    else:
        at = writer.constant(behind)
    shape = (*cache[:axis], rows, 1)
    before = np.moveaxis(np.indices(shape[:-1]), 0, -1)[..., :axis]
    at = writer.add("Expand", at, writer.constant(vector(*shape)))
    places = writer.add("Concat", writer.constant(np.ascontiguousarray(before)), at, axis=-1)
    writer.finish("ScatterND", writer.node.input[0], places, writer.node.input[1])
    return True
