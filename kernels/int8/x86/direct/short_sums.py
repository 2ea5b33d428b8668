"""Several products of bytes added in int16 before they are widened: fewer multiplications than by pairs.

A sum of products of uint8 by weights fits int16 where the weights above zero add up to 128 at most, and those
below to -128 at least. Weights of 7 bits are seldom as large as that together: six or eight of them nearly
always fit, and which ones are added is free. So units of channels are put together in steps when the weights
are packed, by exchanges between steps until they fit for all filters of a tile. The packed tile begins with
a list of where the data of each step's units are. Steps that do not fit come last and are added by pairs,
which always fit: the result is exact for any weights of 7 bits.

Of weights of 8 bits even two products may not fit, and fewer do together (``wide``). Steps that do not fit
are added one product at a time there, by data of which every other byte is zero.
"""

from __future__ import annotations

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.tir import const, convert, reinterpret
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.exchange import choose, fitting_first
from kernels.int8.x86.instructions import LINE_BYTES, add_pairs, add_products, prefetch
from kernels.kernel import Array

UNIT = 4
"""Channels of a unit: each of a filter's two int16 lanes gets two of them."""
MOST = 128
"""What weights of one sign may add up to: 255 times that is below 2^15."""
EVERY_OTHER = (0x00FF00FF, -0x00FF0100)
"""Bytes 0 and 2 of a unit, and bytes 1 and 3."""


class ShortSums:
    """Tiles whose steps have ``parts`` units each; ``units`` in all, ``lanes`` filters a vector."""

    def __init__(self, parts: int, units: int, lanes: int, wide: bool = False) -> None:
        self.parts, self.units, self.lanes, self.wide = parts, units, lanes, wide
        self.steps = ceil_div(units, parts)
        """The last is filled up with weights of zero."""
        self.header = ceil_div(4 * (1 + parts * self.steps), LINE_BYTES) * LINE_BYTES
        """A vector's share of the bytes before the steps: how many fit, and where the data of each are."""
        self.vector = self.header + self.steps * parts * lanes * UNIT
        """Bytes of a packed vector of filters."""
        self.usual = {1: 8, 2: 32, 3: 8, 4: 64}.get(parts, 0)
        """From how many units on nearly all steps fit, in networks with weights of 7 bits, one scale a
        filter: the more weights the scale covers, the smaller most of them are."""

    def pack(self, weights: Array, offsets: Array) -> Array:
        """Tiles as the code reads them, int8: weights are (tile, filter, unit, ``UNIT``), ``offsets`` say
        where the data of each unit begin, from those of the window."""
        more = self.parts * self.steps - self.units
        weights = np.pad(weights.astype(np.int16), ((0, 0), (0, 0), (0, more), (0, 0)))
        offsets = np.pad(offsets, (0, more), "edge")
        tiles, filters, units, _ = weights.shape
        pairs = weights.reshape(tiles, filters, units, 2, 2)
        signs = [np.maximum(each, 0).sum(4, dtype=np.int16) for each in (pairs, -pairs)]
        sizes = np.stack(signs, 4).transpose(0, 2, 1, 3, 4).reshape(tiles, units, -1)
        chosen, fits = choose(sizes, self.parts, MOST)
        chosen = fitting_first(chosen, fits).reshape(tiles, units)
        vectors = filters // self.lanes
        header = np.zeros((tiles, vectors * self.header // 4), np.int32)
        header[:, 0], header[:, 1 : 1 + units] = fits.sum(1), offsets[chosen]
        # (tile, vector, filter, step, part, channel) to (tile, step, vector, part, filter, channel)
        body = np.take_along_axis(weights, chosen[:, None, :, None], 2).astype(np.int8)
        body = body.reshape(tiles, vectors, self.lanes, self.steps, self.parts, UNIT)
        body = body.transpose(0, 3, 1, 4, 2, 5).reshape(tiles, -1)
        return np.concatenate([header.view(np.int8), body], axis=1).reshape(-1)

    def emit(
        self,
        weights: Buffer,
        base: Index,
        source: Buffer,
        starts: list[Index],
        sums: Buffer,
        slots: list[list[Vector]],
        ahead: bool,
    ) -> None:
        """Add a tile's products to ``sums`` at ``slots`` (by window and vector). The tile begins at byte
        ``base`` of the packed weights, the windows at ``starts``; ``ahead`` asks for the tile after it."""
        vectors, bits = len(slots[0]), 32 * self.lanes
        size = UNIT * self.lanes
        body = vectors * self.header
        ones = const(1, "int16", 2 * self.lanes)

        def number(place: Index) -> Index:
            return reinterpret(weights[tir.vector(base + 4 * place, 4)], "int32", 1)

        # Of 64 bits, so that the sum of both is left to the address of the load.
        starts = [T.Bind(convert(start, "int64", 1)) for start in starts]

        def broadcast(at: Index, kept: int | None = None) -> Vector:
            place = tirx.Ramp(at, tirx.const(1, "int64"), UNIT)
            unit = tir.splat(reinterpret(source[place], "int32", 1), self.lanes)
            if kept is not None:
                unit = tirx.bitwise_and(unit, const(kept, lanes=self.lanes))
            return T.Bind(reinterpret(unit, "uint8", size))

        def emit_step(step: Index, fits: bool) -> None:
            offsets = [
                T.Bind(convert(number(1 + step * self.parts + part), "int64", 1))
                for part in range(self.parts)
            ]
            at = T.Bind(base + body + step * (vectors * self.parts * size))
            if ahead:
                prefetch(weights, at + vectors * self.vector, vectors * self.parts * size)
            panels = [
                [
                    T.Bind(weights[tir.vector(at + (j * self.parts + part) * size, size)])
                    for part in range(self.parts)
                ]
                for j in range(vectors)
            ]
            for i, start in enumerate(starts):
                if self.wide and not fits:
                    for kept in EVERY_OTHER:
                        data = [broadcast(start + offset, kept) for offset in offsets]
                        for j, panel in enumerate(panels):
                            for each, factor in zip(data, panel, strict=True):
                                product = add_products(each, factor, bits)
                                total = sums[slots[i][j]] + add_pairs(product, ones, bits)
                                tir.store(sums, total, slots[i][j])
                    continue
                data = [broadcast(start + offset) for offset in offsets]
                for j, panel in enumerate(panels):
                    both = zip(data, panel, strict=True)
                    products = [T.Bind(add_products(each, factor, bits)) for each, factor in both]
                    if fits:
                        total = products[0]
                        for product in products[1:]:
                            total = T.Bind(total + product)
                        products = [total]
                    for product in products:
                        tir.store(sums, sums[slots[i][j]] + add_pairs(product, ones, bits), slots[i][j])

        fitting = T.Bind(number(0))
        with tir.loop(fitting) as step:
            emit_step(step, True)
        with tir.loop(tir.index(self.steps) - fitting) as step:
            emit_step(T.Bind(fitting + step), False)
