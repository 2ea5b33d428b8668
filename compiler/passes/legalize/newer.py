"""Forms of new operator sets that TVM's importer reads as older ones."""

from __future__ import annotations

import numpy as np

from compiler.passes.legalize.writer import Writer, vector


def space_to_depth(writer: Writer) -> bool:
    """Since version 28 the channels of a block may come before its pixels."""
    if writer.attributes.get("mode", b"DCR") != b"CRD":
        return False
    (n, c, h, w), size = writer.info(0).shape, writer.attributes["blocksize"]
    cut = writer.constant(vector(n, c, h // size, size, w // size, size))
    parts = writer.add("Reshape", writer.node.input[0], cut)
    turned = writer.add("Transpose", parts, perm=[0, 1, 3, 5, 2, 4])
    writer.finish("Reshape", turned, writer.constant(vector(n, c * size**2, h // size, w // size)))
    return True


def shift(writer: Writer) -> bool:
    """Signed integers have a meaning for every shift, which no machine's instruction has."""
    if not writer.info(0).dtype.startswith("uint"):
        writer.refuse(f"shifts {writer.info(0).dtype}; only unsigned integers can be shifted")
    return False


def remainder(writer: Writer) -> bool:
    """Of floats by the sign of the divisor: that by the sign of the dividend, and the divisor once more where
    these differ."""
    if not writer.info(0).dtype.startswith("float") or writer.attributes.get("fmod", 0):
        return False
    divisor = writer.node.input[1]
    zero = writer.constant(np.zeros((), writer.info(0).dtype))
    rest = writer.add("Mod", writer.node.input[0], divisor, fmod=1)
    apart = writer.add("Xor", writer.add("Less", rest, zero), writer.add("Less", divisor, zero))
    nothing = writer.add("Equal", rest, zero)
    other = writer.add("And", apart, writer.add("Not", nothing))
    writer.finish("Where", other, writer.add("Add", rest, divisor), rest)
    return True


def product(writer: Writer) -> bool:
    """QLinearMatMul with scales of 16 bits, in which its factor would have to be rounded."""
    if writer.info(1).dtype != "float32":
        writer.refuse(f"has scales of {writer.info(1).dtype}; only float32 is supported")
    return False
