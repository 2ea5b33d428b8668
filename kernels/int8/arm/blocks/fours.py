"""The kind ``fours`` of block: four products of bytes are added in 16 bits before they are widened.

A widening addition takes as long as two multiplications, so four products at a time take three quarters of
what two take. The products of signed bytes by four weights fit 16 bits where the sizes of these weights add
up to 255 at most. The largest weight of a filter is 127, but most are far smaller, and which are added is
free. So units of eight elements are put together in steps when the weights are packed, by exchanges until
nearly all fit for all filters of a panel (``exchange.py``). A packed panel begins with how many steps fit,
and with where the data of each unit are. Steps that do not fit come last and are added by twos: the result
is exact for any weights of which two products fit.
"""

from __future__ import annotations

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.arm.blocks.block import QUAD, Rows, quad_at
from kernels.int8.arm.blocks.pairwise import Pairwise
from kernels.int8.exchange import choose, fitting_first
from kernels.kernel import Array

UNIT, PARTS = 8, 4
"""Elements of a unit, and units of a step."""
MOST = 255
"""What the sizes of the weights of a lane may add up to: 128 times that is below 2^15."""
UNFIT = 0.05
"""Share of the steps that are taken not to fit: in filters of networks there are fewer."""


class Fours(Pairwise):
    """``PARTS`` times ``UNIT`` products to each accumulator, which holds four parts of one sum."""

    name = "fours"
    depth = UNIT * PARTS

    @property
    def unit(self) -> int:
        """Elements of a unit."""
        return UNIT

    @property
    def operands(self) -> int:
        """Of the side that stays, and of what passes."""
        return PARTS * (min(self.rows, self.columns) + 1) + 2

    @property
    def cycles(self) -> float:
        """Half a vector for each unit, and a widening addition; two of them where a step does not fit."""
        return self.accumulators * (PARTS / 2 + 1 + UNFIT)

    @property
    def loads(self) -> float:
        """Units of data one by one, the weights, and where these units are."""
        return self.rows * PARTS + self.columns * self.depth / 16 + PARTS / 2

    def length(self, steps: int) -> int:
        """With the list of units, in whole vectors."""
        return self._header(steps) + super().length(steps)

    def _header(self, steps: int) -> int:
        return ceil_div(4 * (1 + PARTS * steps), 16) * 16

    def stored(self, panels: Array) -> Array:
        """Panel by panel: how many steps fit, the offset of each unit's data (int32), and each step's
        weights: columns, each of its units."""
        count, steps, _, columns = panels.shape
        units = panels.reshape(count, steps * PARTS, UNIT, columns)
        sizes = np.abs(units.astype(np.int16)).reshape(count, steps * PARTS, -1)
        chosen, fits = choose(sizes, PARTS, MOST)
        chosen = fitting_first(chosen, fits).reshape(count, -1)
        header = np.zeros((count, self._header(steps) // 4), np.int32)
        header[:, 0] = fits.sum(1)
        # Units of zeros fill up the depth: there need not be data.
        header[:, 1 : 1 + chosen.shape[1]] = chosen * UNIT * np.take_along_axis(sizes.any(2), chosen, 1)
        body = np.take_along_axis(units, chosen[:, :, None, None], 1)
        body = body.reshape(count, steps, PARTS, UNIT, columns).transpose(0, 1, 4, 2, 3)
        return np.concatenate([header.view(np.int8), body.reshape(count, -1).astype(np.int8)], 1).reshape(-1)

    def start(self, starts: list[list[Vector]]) -> list[Vector]:
        """Zeros: no step may be there that fits."""
        return [tir.const(0, lanes=QUAD)] * self.accumulators

    def products(self, sums: Buffer, rows: Rows, weights: Buffer, at: Index, steps: int) -> None:
        """Add all ``steps`` of the panel at ``at``. A row's elements lie side by side, ``rows.pitch`` from
        one row to the next."""

        def number(place: Index) -> Index:
            return tir.reinterpret(weights[tir.vector(at + 4 * place, 4)], "int32", 1)

        # Of 64 bits, so that the sum with an offset is left to the address of the load.
        starts = [T.Bind(tir.convert(rows.at + row * rows.pitch, "int64", 1)) for row in range(self.rows)]

        def add(step: Index, fits: bool) -> None:
            offsets = [
                T.Bind(tir.convert(number(1 + step * PARTS + part), "int64", 1)) for part in range(PARTS)
            ]
            first = T.Bind(at + self._header(steps) + step * (self.columns * self.depth))

            together = PARTS if fits else 2
            for parts in (range(part, part + together) for part in range(0, PARTS, together)):
                self._add_units(
                    sums,
                    rows.buffer,
                    [[each + offsets[part] for part in parts] for each in starts],
                    weights,
                    [first + UNIT * part for part in parts],
                )

        fitting = T.Bind(number(0))
        with tir.loop(fitting) as step:
            add(step, True)
        with tir.loop(tir.index(steps) - fitting) as step:
            add(T.Bind(fitting + step), False)

    def _add_units(
        self, sums: Buffer, data: Buffer, rows: list[list[Index]], weights: Buffer, columns: list[Index]
    ) -> None:
        """Add the products of units that fit together: of each row those at ``rows``, of the first column
        those at ``columns``."""

        def row_units(row: int) -> list[Vector]:
            return [T.Bind(data[tirx.Ramp(at, tirx.const(1, "int64"), UNIT)]) for at in rows[row]]

        def column_units(column: int) -> list[Vector]:
            return [T.Bind(weights[tir.vector(at + column * self.depth, UNIT)]) for at in columns]

        def add(row: int, column: int, one: list[Vector], other: list[Vector]) -> None:
            slot = quad_at(row * self.columns + column)
            first, *others = (self._product(a, b) for a, b in zip(one, other, strict=True))
            tir.store(sums, self._add(sums[slot], sum(others, first)), slot)

        if self.columns <= self.rows:
            stay = [column_units(column) for column in range(self.columns)]
            for row in range(self.rows):
                passing = row_units(row)
                for column, there in enumerate(stay):
                    add(row, column, passing, there)
                code_shape.order()
        else:
            stay = [row_units(row) for row in range(self.rows)]
            for column in range(self.columns):
                passing = column_units(column)
                for row, there in enumerate(stay):
                    add(row, column, there, passing)
                code_shape.order()
