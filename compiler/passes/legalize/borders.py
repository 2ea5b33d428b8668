"""Pads that reflect more than there is."""

from __future__ import annotations

from compiler.passes.legalize.writer import Writer


def reflected(writer: Writer) -> bool:
    """A reflection of more than lies behind the edge: onnxruntime refuses it, and TVM reads elsewhere."""
    pads = writer.value(1) if writer.has(1) else writer.attributes.get("pads")
    if writer.attributes.get("mode") != b"reflect" or pads is None:
        return False
    shape, axes = writer.info(0).shape, writer.value(3)
    along = range(len(shape)) if axes is None else [int(axis) % len(shape) for axis in axes]
    for place, axis in enumerate(along):
        ends = int(pads[place]), int(pads[place + len(along)])
        extent = shape[axis] + sum(min(0, end) for end in ends)
        if max(ends) > max(0, extent - 1):
            writer.refuse(
                f"reflects {max(ends)} elements of an axis of {extent}, and there are {max(0, extent - 1)} "
                "behind its edge: pad less, or give a larger shape"
            )
    return False
