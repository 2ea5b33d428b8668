"""Softmax of rows of scores in a workspace, but for the division by their sums."""

from __future__ import annotations

from collections.abc import Callable

from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, Vector

LOWEST = -3.4028234663852886e38
"""The smallest float32 that is not minus infinity."""


def larger(one: Vector, other: Vector) -> Vector:
    """The larger of both; of a NaN and a number any: whatever it is, the row's sum is NaN."""
    return tirx.Select(one > other, one, other)


Adjust = Callable[[Vector, Index], Vector]
"""(scores, their first column) -> scores with what is added to them."""


def exponentials(
    scores: Buffer, start: Index, columns: Index, lanes: int, adjust: Adjust, last: Adjust, empty: float
) -> Expr:
    """Turn the ``columns`` scores from ``start`` into exponentials; the factor by which they sum to one.

    ``columns`` are whole vectors, of which ``last`` adjusts the last one. A row of nothing but minus infinity
    becomes zeros, and its factor ``empty``.
    """
    best = tir.registers(lanes)
    whole = tir.vector(0, lanes)
    tir.store(best, tir.splat(tir.number(LOWEST), lanes), whole)
    end = T.Bind(columns - lanes)

    def meet(at: Index, with_what: Adjust) -> None:
        place = tir.vector(start + at, lanes)
        value = T.Bind(with_what(scores[place], at))
        tir.store(scores, value, place)
        tir.store(best, larger(best[whole], value), whole)

    with T.serial(0, end // lanes) as turn:
        meet(T.Bind(turn * lanes), adjust)
    meet(end, last)
    largest = T.Bind(_folded(best, lanes, larger))
    total = tir.registers(lanes)
    tir.store(total, tir.zeros(lanes), whole)
    with T.serial(0, columns // lanes) as turn:
        place = tir.vector(start + turn * lanes, lanes)
        value = T.Bind(tirx.exp(scores[place] - tir.splat(largest, lanes)))
        tir.store(scores, value, place)
        tir.store(total, total[whole] + value, whole)
    found = T.Bind(_folded(total, lanes, lambda one, other: one + other))
    # A row that sees anything has a largest score, whose exponential is one.
    return T.Bind(tirx.Select(found > 0, tir.number(1.0) / found, tir.number(empty)))


def _folded(values: Buffer, lanes: int, both: Callable[[Expr, Expr], Expr]) -> Expr:
    terms = [values[lane] for lane in range(lanes)]
    while len(terms) > 1:
        half = len(terms) // 2
        terms = [T.Bind(both(terms[i], terms[i + half])) for i in range(half)]
    return terms[0]
