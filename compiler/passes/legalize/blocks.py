"""Blocks of an image, added up where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.ir.graph import Array
from compiler.passes.legalize.writer import Writer, vector


@dataclass(frozen=True)
class Windows:
    """Where blocks of ``taps`` lie; there are ``counts`` of them, and ``pads`` is before the image.

    Each has a number for every axis of the image.
    """

    taps: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    spreads: tuple[int, ...]
    pads: tuple[int, ...]

    def places(self, size: tuple[int, ...]) -> Array:
        """The pixel of each tap of each block in an image of ``size``; one more where there is none."""
        found, inside = np.zeros(1, np.int64), np.ones(1, bool)
        axes = zip(self.taps, self.counts, self.steps, self.spreads, self.pads, size, strict=True)
        for axis, (taps, count, step, spread, pad, extent) in enumerate(axes):
            at = np.arange(taps)[:, None] * spread + np.arange(count) * step - pad
            lying = [1] * 2 * len(size)
            lying[axis], lying[axis + len(size)] = at.shape
            at = at.reshape(lying)
            found, inside = found * extent + at, inside & (at >= 0) & (at < extent)
        return np.where(inside, found, prod(size)).reshape(-1)


def added_up(writer: Writer, blocks: str, shape: tuple[int, ...], windows: Windows) -> str:
    """Write the sum of ``blocks``, (batch; channel, tap; block), in an image of ``shape``; its name."""
    rows, pixels = prod(shape[:2]), prod(shape[2:])
    places = windows.places(shape[2:])
    room = max(pixels, int(places.max()) + 1)
    flat = writer.add("Reshape", blocks, writer.constant(vector(rows, places.size)))
    zeros = writer.constant(np.zeros((room, rows), writer.graph.tensors[blocks].dtype))
    added = [writer.constant(places.reshape(-1, 1)), writer.add("Transpose", flat, perm=[1, 0])]
    made = writer.add("ScatterND", zeros, *added, reduction="add")
    if room > pixels:
        made = writer.add("Slice", made, *(writer.constant(vector(end)) for end in (0, pixels, 0)))
    turned = writer.add("Transpose", made, perm=[1, 0])
    return writer.add("Reshape", turned, writer.constant(vector(*shape)))
