"""Norms that TVM's importer has no words for: what they put out besides, or over all axes."""

from __future__ import annotations

import math

import numpy as np

from compiler.passes.legalize.writer import Writer, vector


def moments(writer: Writer) -> bool:
    """LayerNormalization that puts out its means and deviations, too."""
    data, (result, *more) = writer.node.input[0], list(writer.node.output)
    if not any(more) or writer.info(0).dtype != "float32":
        return False
    if 0 in writer.info(0).shape:
        writer.refuse("has means along an axis without elements as a result")
    mean = _mean(writer, data)
    centred = writer.add("Sub", data, mean)
    inverse = _inverse(writer, centred)
    scaled = writer.add("Mul", writer.add("Mul", centred, inverse), writer.node.input[1])
    if writer.has(2):
        scaled = writer.add("Add", scaled, writer.node.input[2])
    for made, output in zip((scaled, mean, inverse), (result, *more), strict=False):
        if output:
            writer.finish("Identity", made)
            writer.nodes[-1].output[0] = output
    return True


def of_all(writer: Writer) -> bool:
    """RMSNormalization over all axes."""
    data, rank = writer.node.input[0], len(writer.info(0).shape)
    if writer.attributes.get("axis", -1) % rank or writer.info(0).dtype != "float32":
        return False
    scaled = writer.add("Mul", data, _inverse(writer, data))
    writer.finish("Mul", scaled, writer.node.input[1])
    return True


def _inverse(writer: Writer, data: str) -> str:
    """One over the root of the mean square and epsilon."""
    square = _mean(writer, writer.add("Mul", data, data))
    least = writer.constant(np.array(writer.attributes.get("epsilon", 1e-5), np.float32))
    return writer.add("Reciprocal", writer.add("Sqrt", writer.add("Add", square, least)))


def _mean(writer: Writer, data: str) -> str:
    shape = writer.info(0).shape
    first = writer.attributes.get("axis", -1) % len(shape)
    total = writer.add("ReduceSum", data, writer.constant(vector(*range(first, len(shape)))))
    share = np.array(1 / math.prod(shape[first:]), np.float32)
    return writer.add("Mul", total, writer.constant(share))
