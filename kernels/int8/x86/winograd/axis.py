"""One axis of exact Winograd for three taps on x86: two or four results by four or six multiplications.

Transforms only add and shift. All fractions are in the way back, as in Arm's ``points.py``, but filters
are scaled here so that few steps are left of it: ``2^loss * odd`` times the results comes out, modulo 2^32.
The same functions transform numpy arrays and vectors of TIR, element by element.

The points are those of ``Points`` on Arm and of float's ``Transform``, but the sums are written by hand. For
four results the data take 17 steps of int16 here; by ``Transform``'s rule, which shares what opposite points
have in common, they take 20, two of them multiplications by 5. Its way back takes as many as ours, but leaves
all scale to the filters: at infinity 24 instead of 3, and 24 * 24 * 127 is no int16. With Arm's scales 32-bit
multiplications are left in the way back, which are slow on x86.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels.emit.types import Vector
from kernels.kernel import Array

Keep = Callable[[Vector], Vector]
"""Names a value that is used more than once."""
Transform = Callable[[Sequence[Vector], Keep], list[Vector]]


@dataclass(frozen=True)
class Axis:
    """F(``results``, 3). ``filters`` is (points, taps); the other two transforms are functions."""

    results: int
    filters: tuple[tuple[int, ...], ...]
    forward: Transform
    backward: Transform
    loss: int
    odd: int

    @property
    def points(self) -> int:
        """Multiplications a tile, and elements of the data that it reads."""
        return self.results + 2

    @cached_property
    def data(self) -> Array:
        """(points, data): what ``forward`` computes."""
        return np.array(self.forward(list(np.eye(self.points, dtype=np.int64)), lambda value: value))

    @cached_property
    def gains(self) -> tuple[int, int]:
        """How many times larger than the data, and than the filters, what is transformed can be."""
        return int(np.abs(self.data).sum(1).max()), max(sum(map(abs, row)) for row in self.filters)


def _forward_two(d: Sequence[Vector], keep: Keep) -> list[Vector]:
    return [keep(value) for value in (d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3])]


def _backward_two(m: Sequence[Vector], keep: Keep) -> list[Vector]:
    return [keep(m[0] + (m[1] + m[2])), keep((m[1] - m[2]) - m[3])]


def _forward_four(d: Sequence[Vector], keep: Keep) -> list[Vector]:
    """At 0, 1, -1, 2, -2 and infinity."""
    even, odd = keep(d[4] - d[2]), keep((d[3] - d[1]) << 1)
    far_even, far_odd = keep(d[4] - (d[2] << 2)), keep(d[3] - (d[1] << 2))
    first, last = even + ((d[0] - d[2]) << 2), (d[5] - d[3]) - (odd << 1)
    pairs = (far_even + far_odd, far_even - far_odd, even + odd, even - odd)
    return [keep(value) for value in (first, *pairs, last)]


def _backward_four(m: Sequence[Vector], keep: Keep) -> list[Vector]:
    one, other = keep(m[1] + m[2]), keep(m[1] - m[2])
    two, across = keep(m[3] + m[4]), keep(m[3] - m[4])
    results = (m[0] + (one + two), other + (across << 1), one + (two << 2), other + ((across + m[5]) << 3))
    return [keep(value) for value in results]


AXES = {
    2: Axis(2, ((2, 0, 0), (1, 1, 1), (1, -1, 1), (0, 0, 2)), _forward_two, _backward_two, 1, 1),
    4: Axis(
        4,
        ((6, 0, 0), (-4, -4, -4), (-4, 4, -4), (1, 2, 4), (1, -2, 4), (0, 0, 3)),
        _forward_four,
        _backward_four,
        3,
        3,
    ),
}
"""By the number of results."""


def both(
    down: Transform, across: Transform, values: Sequence[Sequence[Vector]], keep: Keep
) -> list[list[Vector]]:
    """``values`` (rows of a tile) transformed along both axes, columns first; rows again."""
    columns = [down(column, keep) for column in zip(*values, strict=True)]
    return [across(row, keep) for row in zip(*columns, strict=True)]
