"""A Slice to an end that data decide: ``bounded_shapes`` leaves such at the results of a model."""

from __future__ import annotations

from compiler.ir.own_nodes import CUT
from compiler.passes.legalize.writer import Writer


def result(writer: Writer) -> bool:
    """The node that has data decide how much is left of a result."""
    output = writer.node.output[0]
    if not writer.has(2) or writer.value(2) is not None:
        return False
    axes = writer.value(3)
    if output not in writer.graph.outputs or axes is None:
        writer.refuse("has a data-dependent end")
    writer.finish(CUT, writer.node.input[0], writer.node.input[2], axes=[int(axis) for axis in axes])
    return True
