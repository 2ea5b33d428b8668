"""DFT and STFT as products by tables of cosines and sines."""

from __future__ import annotations

import numpy as np

from compiler.ir.graph import Array
from compiler.passes.legalize.writer import Writer, vector

MOST_BYTES = 64 << 20
"""Tables are at most so large: they grow with the square of the points."""
SMALLEST = 1e-14
"""Of cosines and sines; those of a million points are greater by far."""
AXIS_AS_INPUT = 20
"""The version of DFT that takes it so."""


def transform(writer: Writer) -> bool:
    """A DFT: of the numbers along an axis, real ones or pairs, one product with all waves."""
    attributes, shape = writer.attributes, writer.info(0).shape
    inverse, out = bool(attributes.get("inverse", 0)), writer.graph.tensors[writer.node.output[0]].shape
    if inverse and attributes.get("onesided", 0):
        writer.refuse("is an inverse of one side, which is not supported")
    axis = attributes.get("axis", 1)
    if writer.graph.opset >= AXIS_AS_INPUT:
        axis = _number(writer, 2, -2)
    axis, rank = axis % len(shape), len(shape)
    points = _number(writer, 1, shape[axis])
    used, parts, waves = min(shape[axis], points), shape[-1], out[axis]
    cosine, sine = _waves(writer, np.arange(used), np.arange(waves), points, 2 * parts)
    sine = sine if inverse else -sine
    pairs = [np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)][:parts]
    table = np.stack(pairs).reshape(parts * used, 2 * waves) / (points if inverse else 1)
    others = [each for each in range(rank - 1) if each != axis]
    data = writer.add("Transpose", writer.node.input[0], perm=[*others, rank - 1, axis])
    if used < shape[axis]:
        limits = [writer.constant(vector(each)) for each in (0, used, rank - 1)]
        data = writer.add("Slice", data, *limits)
    data = writer.add("Reshape", data, writer.constant(vector(-1, parts * used)))
    product = writer.add("MatMul", data, writer.constant(table.astype(writer.info(0).dtype)))
    made = writer.constant(vector(*(shape[each] for each in others), waves, 2))
    back = [*others, axis, rank - 1]
    perm = [back.index(each) for each in range(rank)]
    writer.finish("Transpose", writer.add("Reshape", product, made), perm=perm)
    return True


def framed(writer: Writer) -> bool:
    """An STFT of real numbers: a convolution with the waves in a window as channels."""
    shape, out = writer.info(0).shape, writer.graph.tensors[writer.node.output[0]].shape
    if len(shape) == 3 and shape[2] != 1:
        writer.refuse("transforms complex numbers; only real ones are supported")
    if writer.has(2) and writer.value(2) is None:
        writer.refuse("has a computed window; only a constant one is supported")
    window = writer.value(2)
    size = _number(writer, 3, 0 if window is None else len(window))
    if window is not None and len(window) != size:
        writer.refuse(f"has a window of {len(window)} for frames of {size}")
    waves = out[2]
    cosine, sine = _waves(writer, np.arange(size), np.arange(waves), size, 2)
    table = np.stack([cosine, -sine], -1).reshape(size, 2 * waves)
    if window is not None:
        table = table * window[:, None]
    weights = table.T[:, None].astype(writer.info(0).dtype)
    line = writer.add("Reshape", writer.node.input[0], writer.constant(vector(shape[0], 1, shape[1])))
    kernel = writer.constant(np.ascontiguousarray(weights))
    frames = writer.add("Conv", line, kernel, kernel_shape=[size], strides=[_number(writer, 1, 0)])
    turned = writer.add("Transpose", frames, perm=[0, 2, 1])
    writer.finish("Reshape", turned, writer.constant(vector(*out)))
    return True


def _number(writer: Writer, place: int, default: int) -> int:
    if not writer.has(place):
        return default
    value = writer.value(place)
    if value is None:
        writer.refuse(f"has a computed input {place}; only a constant one is supported")
    return int(value.item())


def _waves(writer: Writer, at: Array, waves: Array, points: int, numbers: int) -> tuple[Array, Array]:
    """Cosines and sines (place, wave) of a transform of ``points``; ``numbers`` says how many tables."""
    size = at.size * waves.size * numbers * 4
    if size > MOST_BYTES:
        writer.refuse(f"transforms {points} points, whose waves would take {size >> 20} MiB")
    angles = np.outer(at, waves) % points * (2 * np.pi / points)
    # What is nothing shall be nothing: the sign of what is left over would make a phase of -pi one of pi.
    cosines, sines = np.cos(angles), np.sin(angles)
    cosines[abs(cosines) < SMALLEST] = 0
    sines[abs(sines) < SMALLEST] = 0
    return cosines, sines
