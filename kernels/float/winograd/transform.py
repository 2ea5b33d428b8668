"""The transforms of Winograd's minimal filtering, stride 1 or 2.

Y = A' [(G g G') * (B' d B)] A for one tile: d is tile x tile, g is taps x taps, Y is m x m. (If a filter is
no square, the matrices on the right are those of its other side.) With stride 1 the matrices are Toom and
Cook's for the points 0, 1, -1, 2, -2, 1/2, -1/2 (as many as it takes) and infinity, as in Lavin and Gray,
"Fast Algorithms for Convolutional Neural Networks", section 4. With stride 2 the even and the odd elements of
a line meet the even and the odd taps, each by a transform of stride 1, and the results are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from kernels.arithmetic import ceil_div
from kernels.emit.types import Vector

POINTS = tuple(Fraction(point) for point in ("0", "1", "-1", "2", "-2", "1/2", "-1/2"))

Matrix = list[list[Fraction]]
Bind = Callable[[Vector], Vector]
"""Binds a value to a variable."""
Times = Callable[[float, Vector], Vector]
"""Multiplies a value, which may be a vector expression, by a constant."""


@dataclass(frozen=True)
class Transform:
    """F(m, taps): ``m`` results along a side of filters with ``taps`` there, ``stride`` apart."""

    m: int
    taps: int
    stride: int = 1

    @property
    def tile(self) -> int:
        """Side of an input tile, and of a transformed one."""
        return (self.m - 1) * self.stride + self.taps

    @property
    def finite_points(self) -> int:
        """How many of ``POINTS`` it takes, from the first."""
        longest = ceil_div(self.taps, self.stride)
        return self.m + longest - 2

    @property
    def exists(self) -> bool:
        """Whether there are points enough."""
        return self.taps >= self.stride and self.finite_points <= len(POINTS)

    def filters_of_lines(self, weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Weights (filters, channels, taps) as (tile, filters, channels), in float64."""
        g = np.array(matrices(self)[1], np.float64)
        transformed: npt.NDArray[np.float64] = np.einsum("ai,kci->akc", g, weights.astype(np.float64))
        return transformed

    def forward(self, x: Sequence[Vector], times: Times) -> list[Vector]:
        """B' applied to ``tile`` values. Opposite points share what they have in common."""
        rows, pairs = matrices(self)[0], _opposites(self)
        result: list[Vector] = [None] * len(rows)
        for one, other in pairs:
            if other is None:
                result[one] = _sum(rows[one], x, times)
                continue
            both = list(zip(rows[one], rows[other], strict=True))
            same = _sum([(a + b) / 2 for a, b in both], x, times)
            different = _sum([(a - b) / 2 for a, b in both], x, times)
            result[one], result[other] = same + different, same - different
        return result

    def backward(self, x: Sequence[Vector], times: Times, bind: Bind) -> list[Vector]:
        """A' applied to ``tile`` values: ``m`` results. Opposite points are added and subtracted once."""
        rows, terms = matrices(self)[2], []
        for one, other in _opposites(self):
            if other is None:
                terms.append((x[one], [row[one] for row in rows]))
                continue
            for value, sign in ((bind(x[one] + x[other]), 1), (bind(x[one] - x[other]), -1)):
                terms.append(
                    (value, [row[one] if row[one] == sign * row[other] else Fraction(0) for row in rows])
                )
        values = [value for value, _ in terms]
        return [_sum([factors[j] for _, factors in terms], values, times) for j in range(self.m)]


def filters(down: Transform, across: Transform, weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Weights (filters, channels, taps, taps) as (tile, tile, filters, channels), in float64."""
    left, right = (np.array(matrices(each)[1], np.float64) for each in (down, across))
    transformed: npt.NDArray[np.float64] = np.einsum(
        "ai,kcij,bj->abkc", left, weights.astype(np.float64), right, optimize=True
    )
    return transformed


def twice(
    one: Callable[[Sequence[Vector]], list[Vector]],
    tile: Sequence[Sequence[Vector]],
    bind: Bind,
) -> list[list[Vector]]:
    """``one`` over the columns and then the rows of a tile (rows of values): a transform in 2-D.

    ``bind`` makes a value computed once, however often it is used.
    """
    columns = [[bind(value) for value in one(column)] for column in zip(*tile, strict=True)]
    return [one(row) for row in zip(*columns, strict=True)]


def _sum(factors: Sequence[Fraction], values: Sequence[Vector], times: Times) -> Vector:
    """The sum of values times factors: one times a value first, as the others can be added to that."""
    terms = [(factor, value) for factor, value in zip(factors, values, strict=True) if factor]
    terms.sort(key=lambda term: (term[0] != 1, term[0] < 0))
    (factor, value), *rest = terms
    total = value if factor == 1 else times(float(factor), value)
    for factor, value in rest:
        part = value if abs(factor) == 1 else times(float(abs(factor)), value)
        total = total + part if factor > 0 else total - part
    return total


@cache
def matrices(transform: Transform) -> tuple[Matrix, Matrix, Matrix]:
    """B' (tile x tile), G (tile x taps) and A' (m x tile)."""
    stride, tile = transform.stride, transform.tile
    if stride == 1:
        return _toom_cook(transform.m, transform.taps)
    b: Matrix = []
    g: Matrix = []
    a: Matrix = [[] for _ in range(transform.m)]
    for phase in range(stride):
        part = _toom_cook(transform.m, len(range(phase, transform.taps, stride)))
        b += [_spread(row, phase, stride, tile) for row in part[0]]
        g += [_spread(row, phase, stride, transform.taps) for row in part[1]]
        for row, more in zip(a, part[2], strict=True):
            row += more
    return b, g, a


def _toom_cook(m: int, taps: int) -> tuple[Matrix, Matrix, Matrix]:
    """B', G and A' of F(m, taps) with stride 1."""
    if taps == 1:
        identity = [[Fraction(i == j) for j in range(m)] for i in range(m)]
        return identity, [[Fraction(1)] for _ in range(m)], identity
    points = POINTS[: m + taps - 2]
    b, g = [], []
    for i, point in enumerate(points):
        others = points[:i] + points[i + 1 :]
        scale = Fraction(1)
        for other in others:
            scale *= point - other
        b.append([*_polynomial(others), Fraction(0)])
        g.append([point**k / scale for k in range(taps)])
    b.append(_polynomial(points))
    g.append([Fraction(0)] * (taps - 1) + [Fraction(1)])
    a = [[point**j for point in points] + [Fraction(j == m - 1)] for j in range(m)]
    return b, g, a


@cache
def _opposites(transform: Transform) -> list[tuple[int, int | None]]:
    """Rows of B' in pairs of opposite points, and alone where a point has none."""
    pairs: list[tuple[int, int | None]] = []
    start = 0
    for phase in range(transform.stride):
        taps = len(range(phase, transform.taps, transform.stride))
        count = transform.m + taps - 1
        finite = list(POINTS[: count - 1]) if taps > 1 else []
        at = 0
        while at < count:
            pair = at + 1 < len(finite) and finite[at] == -finite[at + 1]
            pairs.append((start + at, start + at + 1 if pair else None))
            at += 2 if pair else 1
        start += count
    return pairs


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients of the product of (x - root), the constant first."""
    coefficients = [Fraction(1)]
    for root in roots:
        longer = [Fraction(0), *coefficients]
        for power, value in enumerate(coefficients):
            longer[power] -= root * value
        coefficients = longer
    return coefficients


def _spread(row: Sequence[Fraction], first: int, step: int, length: int) -> list[Fraction]:
    result = [Fraction(0)] * length
    result[first::step] = row
    return result
