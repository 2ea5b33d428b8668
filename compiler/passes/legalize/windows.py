"""Padding said in words, written in numbers."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.passes.legalize.writer import Writer, vector
from compiler.passes.shapes.same_padding import SAME, split

MODES = (b"NOTSET", b"VALID", *SAME)
WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""Which operand has the weights."""


def padded(writer: Writer) -> bool:
    """``auto_pad`` of a convolution or pooling as ``pads``."""
    pads = pads_of(writer)
    if pads is None:
        return False
    writer.with_attributes(auto_pad=None, pads=pads)
    return True


def pads_of(writer: Writer) -> list[int] | None:
    """The ``pads`` that ``auto_pad`` stands for; None where it says nothing."""
    mode, kernel = _mode(writer), _kernel(writer)
    if mode == b"NOTSET":
        return None
    size = writer.info(0).shape[2:]
    ones = [1] * len(size)
    steps, spreads = (writer.attributes.get(name, ones) for name in ("strides", "dilations"))
    totals = [
        max(0, (-(-extent // step) - 1) * step + spread * (taps - 1) + 1 - extent) if mode in SAME else 0
        for extent, taps, step, spread in zip(size, kernel, steps, spreads, strict=True)
    ]
    return split(totals, more_first=mode == b"SAME_LOWER")


def integer_line(writer: Writer) -> bool:
    """A ConvInteger along one axis as one of an image of one row.

    Padding with a zero point that is computed is written beside the data: taken off the sums behind, it would
    be another number at each place near an end.
    """
    weights, shape = writer.value(1), writer.info(0).shape
    if len(shape) != 3 or weights is None:
        return False
    attributes = dict(writer.attributes)
    before, after = pads_of(writer) or attributes.get("pads", (0, 0))
    attributes.pop("auto_pad", None)
    data = writer.add("Reshape", writer.node.input[0], writer.constant(vector(*shape[:2], 1, shape[2])))
    if (before or after) and writer.has(2) and writer.value(2) is None:
        zero = writer.add("Reshape", writer.node.input[2], writer.constant(vector(1, 1, 1, 1)))
        ends = [
            [writer.add("Expand", zero, writer.constant(vector(*shape[:2], 1, count)))] if count else []
            for count in (before, after)
        ]
        data, before, after = writer.add("Concat", *ends[0], data, *ends[1], axis=3), 0, 0
    for name in ("kernel_shape", "strides", "dilations"):
        if name in attributes:
            attributes[name] = (1, *attributes[name])
    attributes["pads"] = (0, before, 0, after)
    operands = [data, writer.constant(weights[:, :, None, :]), *writer.node.input[2:]]
    made = writer.add("ConvInteger", *operands, **attributes)
    writer.finish(
        "Reshape", made, writer.constant(vector(*writer.graph.tensors[writer.node.output[0]].shape))
    )
    return True


def transposed(writer: Writer) -> bool:
    """Refuse a wrong ConvTranspose; its padding is in numbers already (``same_padding.py``)."""
    _mode(writer)
    _kernel(writer)
    return False


def _mode(writer: Writer) -> bytes:
    mode: bytes = writer.attributes.get("auto_pad", b"NOTSET")
    if mode not in MODES:
        known = ", ".join(each.decode() for each in MODES)
        writer.refuse(f"has auto_pad {mode.decode(errors='replace')!r}; there are {known}")
    return mode


def _kernel(writer: Writer) -> Sequence[int]:
    """Rows, columns and so on of the window."""
    given: Sequence[int] = writer.attributes.get("kernel_shape", ())
    place = WEIGHTS.get(writer.node.op_type)
    if place is None:
        return given
    kernel = writer.info(place).shape[2:]
    if given and tuple(given) != kernel:
        writer.refuse(f"has kernel_shape {list(given)}, but weights of windows of {list(kernel)}")
    return kernel
