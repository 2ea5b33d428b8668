"""Constants without elements, which TVM's virtual machine cannot load."""

from __future__ import annotations

from tuner.frontend.mend.writer import Writer


def joined(writer: Writer) -> bool:
    """A Concat without them is the same: torch's shapes that are computed leave them behind."""
    names = writer.node.input
    full = [name for name in names if name not in writer.graph.constants or writer.graph.constants[name].size]
    if not full or len(full) == len(names):
        return False
    if len(full) == 1:
        writer.finish("Identity", full[0])
    else:
        writer.finish("Concat", *full, **writer.attributes)
    return True
