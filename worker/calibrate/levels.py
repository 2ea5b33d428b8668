"""Caches in a curve: what a step of a list takes, by the size of what it goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

_CYCLE = 0.75
_FLAT = 2.5
"""A level begins where two sizes differ by so many times less than what ends it."""
_HIT = 0.15
"""Part of the way to the next level that a size still inside may be."""


@dataclass(frozen=True)
class Level:
    """A level of memory: the largest size of the curve inside, the first one that is not (0 for the last
    level), and what a step takes in the middle."""

    inside: int
    outside: int
    step: float


def rising(times: Sequence[float]) -> list[float]:
    """Times that can only rise: whatever else a board does makes some of them longer, none shorter."""
    return [*accumulate(reversed(times), min)][::-1]


def levels(curve: Sequence[tuple[int, float]], noise: float) -> list[Level]:
    """The levels of a curve of (size, step in cycles), by rising size.

    One ends where a step takes more by ``noise``, a part of it, and by most of a cycle.
    """
    curve = [*zip([size for size, _ in curve], rising([step for _, step in curve]), strict=True)]
    found: list[Level] = []
    at = 0
    while at < len(curve):
        step, end = curve[at][1], at
        while end + 1 < len(curve) and curve[end + 1][1] <= step * (1 + noise) + _CYCLE:
            end += 1
        last = end + 1 == len(curve)
        outside = 0 if last else curve[end + 1][0]
        found.append(Level(curve[end][0], outside, median(step for _, step in curve[at : end + 1])))
        at = end + 1
        while at + 1 < len(curve) and curve[at + 1][1] > curve[at][1] * (1 + noise / _FLAT) + _CYCLE / _FLAT:
            at += 1
    return found


def fewest(found: Sequence[Level], most: int) -> list[Level]:
    """At most so many: those that differ least are one, as where pages cost more from some size on."""
    left = list(found)
    while len(left) > most:
        at = min(range(1, len(left)), key=lambda n: left[n].step / left[n - 1].step)
        left[at - 1 : at + 1] = [Level(left[at].inside, left[at].outside, left[at - 1].step)]
    return left


def capacity(level: Level, beyond: float, step_of: Callable[[int], float]) -> int:
    """The size of a cache to an eighth of a power of two; a step takes ``beyond`` where it is left."""
    most = level.step + _HIT * (beyond - level.step)
    low, high = level.inside, level.outside
    eighth = 1 << max(0, low.bit_length() - 4)
    while high - low > eighth:
        middle = (low + high) // 2 // eighth * eighth
        if step_of(middle) <= most:
            low = middle
        else:
            high = middle
    return low


def ways(level: Level, beyond: float, step: float, parts: float) -> float:
    """How many lines a set has, of a cache that drops what was used longest ago: where a list is longer by
    one of ``parts``, a step takes so much on average."""
    return (step - level.step) / (beyond - level.step) * (parts + 1) - 1
