"""Rows of a table of a few bits, made floats after they are taken: embeddings of language models."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from compiler.ir.checks import check_size
from compiler.passes.expand.microsoft.fused import Array, Fused

WHOLE = (2, 4, 8)
"""How many bits an element of a table of bytes may have."""


def block_quantized(form: Fused) -> None:
    """GatherBlockQuantized: what lies outside of the table is 0."""
    data, scales = form.value(0), form.value(2).astype(np.float32)
    block = int(form.attributes.get("block_size", 128))
    values, zeros, bits = _values(form, data, scales.shape)
    rank = values.ndim
    taken, along = (
        int(form.attributes.get(f"{name}_axis", at)) for name, at in (("gather", 0), ("quantize", 1))
    )
    if not (-rank <= taken < rank and -rank <= along < rank):
        form.refuse(f"gathers along axis {taken}, with blocks along axis {along}, of {list(values.shape)}")
    taken, along = taken % rank, along % rank
    wanted = list(values.shape)
    if block > 0:
        wanted[along] = -(-wanted[along] // block)
    if block < 1 or list(scales.shape) != wanted:
        form.refuse(f"has scales of {list(scales.shape)} for blocks of {block} of {list(values.shape)}")
    place, inside = _places(form, values.shape[taken])
    real = _taken_apart(form, values, bits, place, taken)
    blocks = np.arange(values.shape[along]) // block
    if along == taken:
        place = form.add("Div", [place, form.constant(np.array(block))])

    def of_blocks(table: Array) -> str:
        rows = form.add("Gather", [form.constant(table), place], axis=taken)
        if along == taken:
            return rows
        axis = along if along < taken else along - rank
        return form.add("Gather", [rows, form.constant(blocks)], axis=axis)

    if (zeros == zeros.flat[0]).all():
        less = form.number(float(zeros.flat[0]))
    else:
        less = form.add("Cast", [of_blocks(zeros)], to=TensorProto.FLOAT)
    result = form.add("Mul", [form.add("Sub", [real, less]), of_blocks(scales)])
    behind = rank - 1 - taken
    mask = form.unsqueezed(inside, *range(-behind, 0)) if behind else inside
    form.finish(form.add("Where", [mask, result, form.number(0.0)]))


def _values(form: Fused, data: Array, blocks: tuple[int, ...]) -> tuple[Array, Array, int]:
    """(elements, their zero points of the shape ``blocks``, how many bits they have), as uint8."""
    check_size(2 * data.size, f"the table of node {form.node.name!r}", data.shape)
    if str(data.dtype) in ("int4", "uint4"):
        lower = 8 if str(data.dtype) == "int4" else 0
        values = (data.astype(np.int8) + lower).astype(np.uint8)
        zeros = np.full(blocks, lower, np.uint8)
        if form.given(3):
            zeros = (form.value(3).astype(np.int8) + lower).astype(np.uint8)
        bits = 4
    else:
        bits = int(form.attributes.get("bits", 4))
        if data.dtype != np.uint8 or bits not in WHOLE:
            form.refuse(f"has a table of {data.dtype} with {bits} bits an element, which is not supported")
        values = unpacked(data, bits)
        zeros = np.full(blocks, 1 << (bits - 1), np.uint8)
        if form.given(3):
            zeros = unpacked(form.value(3), bits)[..., : blocks[-1] if blocks else 0]
    if not values.size or zeros.shape != blocks:
        form.refuse(f"has zero points of {list(zeros.shape)} for scales of {list(blocks)}")
    return values, zeros, bits


def unpacked(packed: Array, bits: int) -> Array:
    """Numbers of so many bits, the lower ones of a byte first."""
    parts = [packed >> (bits * part) & (2**bits - 1) for part in range(8 // bits)]
    result: Array = np.stack(parts, -1).reshape(*packed.shape[:-1], -1)
    return result


def _places(form: Fused, extent: int) -> tuple[str, str]:
    """The indices counted from the start, 0 for those outside of the table; and which are inside."""
    given = form.add("Cast", [form.needed(1)], to=TensorProto.INT64)
    none, size = (form.constant(np.array(value)) for value in (0, extent))
    below = form.add("Less", [given, none])
    place = form.add("Where", [below, form.add("Add", [given, size]), given])
    early, late = form.add("Less", [place, none]), form.add("Less", [place, size])
    inside = form.add("And", [form.add("Not", [early]), late])
    return form.add("Where", [inside, place, none]), inside


def _taken_apart(form: Fused, values: Array, bits: int, place: str, axis: int) -> str:
    """The elements at ``place`` as floats; the model keeps them packed where rows are whole."""
    each, last = 8 // bits, values.shape[-1]
    if each == 1 or last % each or axis == values.ndim - 1:
        rows = form.add("Gather", [form.constant(values), place], axis=axis)
        return form.add("Cast", [rows], to=TensorProto.FLOAT)
    # A byte has an element of each part of a row: so the parts follow each other when they are taken apart.
    parts = values.reshape(*values.shape[:-1], each, last // each)
    packed = np.zeros((*values.shape[:-1], last // each), np.uint8)
    for part in range(each):
        packed |= parts[..., part, :] << (bits * part)
    rest = form.add("Gather", [form.constant(packed), place], axis=axis)
    rest, found = form.add("Cast", [rest], to=TensorProto.FLOAT), []
    base, shrink = form.number(2.0**bits), form.number(2.0**-bits)
    for _ in range(each - 1):
        higher = form.add("Floor", [form.add("Mul", [rest, shrink])])
        found.append(form.add("Sub", [rest, form.add("Mul", [higher, base])]))
        rest = higher
    return form.add("Concat", [*found, rest], axis=-1)
