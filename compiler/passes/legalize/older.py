"""Forms of old operator sets that TVM's importer reads as newer ones."""

from __future__ import annotations

from compiler.passes.legalize.writer import Writer, vector


def broadcast(writer: Writer) -> bool:
    """Before version 7 the second operand was laid along the axes from ``axis`` on."""
    if writer.graph.opset >= 7:
        return False
    rank, shape = len(writer.info(0).shape), writer.info(1).shape
    axis = writer.attributes.get("axis", rank - len(shape)) % max(rank, 1)
    trailing = rank - axis - len(shape)
    wide = writer.node.input[1]
    if trailing > 0 and writer.attributes.get("broadcast", 0):
        wide = writer.add("Reshape", wide, writer.constant(vector(*shape, *[1] * trailing)))
    writer.finish(writer.node.op_type, writer.node.input[0], wide)
    return True


def prelu(writer: Writer) -> bool:
    """Before version 7 a slope was one for each channel."""
    rank, shape = len(writer.info(0).shape), writer.info(1).shape
    if writer.graph.opset >= 7 or len(shape) != 1 or rank < 3:
        return False
    slope = writer.add("Reshape", writer.node.input[1], writer.constant(vector(-1, *[1] * (rank - 2))))
    writer.finish("PRelu", writer.node.input[0], slope)
    return True


def slices(writer: Writer) -> bool:
    """Before version 10 a Slice had its limits as attributes."""
    if "starts" not in writer.attributes:
        return False
    starts, ends = writer.attributes["starts"], writer.attributes["ends"]
    axes = writer.attributes.get("axes", range(len(starts)))
    limits = [writer.constant(vector(*values)) for values in (starts, ends, axes)]
    writer.finish("Slice", writer.node.input[0], *limits)
    return True


def normalization(writer: Writer) -> bool:
    """Training, and statistics for every pixel, which version 7 still had."""
    if writer.attributes.get("training_mode", 0) or len([name for name in writer.node.output if name]) > 1:
        writer.refuse("is in training mode; export the model for inference")
    if not writer.attributes.get("spatial", 1):
        writer.refuse("has statistics for every pixel (spatial=0), which is not supported")
    return False
