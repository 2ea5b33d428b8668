"""Exact integer Winograd in one dimension: F(m, r), m results of r taps by m + r - 1 multiplications.

Polynomials are evaluated at points p/q and at infinity, by integers alone: at (p, q) as homogeneous ones.
Then the transforms of taps and of data are integer matrices, and all fractions are in the way back: its
denominators are a power of two, ``2^loss``, times an odd number, which modulo 2^32 has an inverse. Sums may
wrap, and ``2^loss`` times the result is right modulo 2^32.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np

from kernels.kernel import Array

WORD = 1 << 32
PAIRS: dict[int, tuple[tuple[int, int], ...]] = {
    4: ((1, 1),),
    6: ((1, 1), (2, 1)),
    8: ((1, 1), (2, 1), (1, 2)),
}
"""By the number of points: the p/q of each pair +p/q and -p/q beside 0 and infinity."""


@dataclass(frozen=True)
class Points:
    """The algorithm of ``count`` points (4, 6 or 8) for ``taps`` taps.

    The order of points is 0, each pair of ``PAIRS`` (plus, minus), infinity. Of the data's transform and of
    the way back the rows (columns) of a pair differ in the sign of every second entry.
    """

    count: int
    taps: int

    @property
    def results(self) -> int:
        """Results of a tile."""
        return self.count + 1 - self.taps

    @property
    def _finite(self) -> list[tuple[int, int]]:
        return [(0, 1), *((sign * p, q) for p, q in PAIRS[self.count] for sign in (1, -1))]

    @cached_property
    def filters(self) -> Array:
        """(points, taps): what a filter is multiplied by when it is packed."""
        rows = [[p**k * q ** (self.taps - 1 - k) for k in range(self.taps)] for p, q in self._finite]
        return np.array([*rows, [0] * (self.taps - 1) + [1]])

    @cached_property
    def data(self) -> Array:
        """(points, data): rows are the polynomials that vanish at all other points."""
        finite = self._finite
        rows = [[*_product([other for other in finite if other != point]), 0] for point in finite]
        return np.array([*rows, _product(finite)])

    @cached_property
    def _back(self) -> list[list[Fraction]]:
        finite, last = self._finite, self.results - 1
        scales = [
            Fraction(1, q * prod(u * p - t * q for t, u in finite if (t, u) != (p, q))) for p, q in finite
        ]
        return [
            [
                *(p**k * q ** (last - k) * scale for (p, q), scale in zip(finite, scales, strict=True)),
                Fraction(int(k == last), prod(q for _, q in finite)),
            ]
            for k in range(self.results)
        ]

    @cached_property
    def loss(self) -> int:
        """The power of two in the denominators of the way back."""
        return max((x.denominator & -x.denominator).bit_length() - 1 for row in self._back for x in row)

    @cached_property
    def results_matrix(self) -> list[list[int]]:
        """(results, points): the way back times ``2^loss``, modulo 2^32."""
        scaled = [[x * (1 << self.loss) for x in row] for row in self._back]
        return [[x.numerator * pow(x.denominator, -1, WORD) % WORD for x in row] for row in scaled]


def _product(points: list[tuple[int, int]]) -> list[int]:
    """Coefficients of the product of all q x - p, the constant first."""
    found = [1]
    for p, q in points:
        shifted = [0, *(q * c for c in found)]
        found = [a - p * c for a, c in zip(shifted, [*found, 0], strict=True)]
    return found
