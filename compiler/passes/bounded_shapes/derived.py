"""Sizes that follow from others: a factor and a summand, or a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from compiler.passes.bounded_shapes.state import Size, State, exactly

Integers = npt.NDArray[np.int64]
MOST_TRIED = 1 << 22
"""A number that may be one of more is not followed."""
MOST_TOLD = 1 << 17
"""Entries of a table."""


def derived(state: State, function: Callable[..., npt.NDArray[np.generic]], *sizes: Size) -> Size | None:
    """What ``function``, of arrays element by element, makes of ``sizes``.

    None where these follow from several numbers, or from one that may be too many.
    """
    unknown = [size for size in sizes if not size.known]
    if not unknown:
        return exactly(int(function(*(np.array([size.low]) for size in sizes))[0]))
    first = unknown[0]
    source = source_of(first)
    if any((size.source, size.at) != (first.source, first.at) for size in unknown):
        return None
    if source.high - source.low >= MOST_TRIED:
        return None
    numbers = np.arange(source.low, source.high + 1)
    given = [
        np.full_like(numbers, size.low) if size.known else numbers * size.times + size.plus for size in sizes
    ]
    made = np.asarray(function(*given)).astype(np.int64)
    steps = np.diff(made)
    if (steps == steps[0]).all() and steps[0] >= 0:
        if not steps[0]:
            return exactly(int(made[0]))
        times = int(steps[0])
        return Size(
            int(made[0]), int(made[-1]), first.source, first.at, times, int(made[0]) - times * source.low
        )
    if len(made) > MOST_TOLD:
        return None
    return _told(state, source, made)


def source_of(size: Size) -> Size:
    """The number that ``size``, which is not known, is a factor of."""
    low, high = ((end - size.plus) // size.times for end in (size.low, size.high))
    return Size(low, high, size.source, size.at)


def _told(state: State, source: Size, made: Integers) -> Size:
    """``made`` has a number for each that ``source`` may be."""

    def write() -> Size:
        place = state.count(replace(source, plus=-source.low))
        name = state.add("Gather", [state.constant(made), place])
        return Size(int(made.min()), int(made.max()), name)

    found: Size = state.once(("told", source, made.tobytes()), write)
    return found


def wanted(state: State, function: Callable[..., npt.NDArray[np.generic]], *sizes: Size) -> Size:
    """As ``derived``; ModelError where that is None."""
    found = derived(state, function, *sizes)
    if found is None:
        state.refuse("has a size that follows from several data-dependent numbers")
    return found


def total(state: State, sizes: Sequence[Size]) -> Size:
    """The sum of ``sizes``."""
    low, high = sum(size.low for size in sizes), sum(size.high for size in sizes)
    unknown = [size for size in sizes if not size.known]
    if not unknown:
        return exactly(low)
    first = unknown[0]
    if all((size.source, size.at) == (first.source, first.at) for size in unknown):
        times = sum(size.times for size in unknown)
        plus = sum(size.plus for size in unknown) + sum(size.low for size in sizes if size.known)
        return Size(low, high, first.source, first.at, times, plus)

    def write() -> Size:
        counts = [state.count(size) for size in sizes]
        while len(counts) > 1:
            counts[:2] = [state.add("Add", counts[:2])]
        return Size(low, high, counts[0])

    found: Size = state.once(("total", *sizes), write)
    return found
