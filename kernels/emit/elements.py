"""Loops over all elements of an array: by vectors, and by threads where that pays."""

from __future__ import annotations

from collections.abc import Callable

from kernels.emit import tir
from kernels.emit.types import Index

PARALLEL_ELEMENTS = 32 * 1024
"""Loops over fewer elements take about as long as waking another thread."""


def threads_for(elements: int, threads: int) -> int:
    """How many of ``threads`` a loop over ``elements`` is split over: all or one."""
    return threads if elements >= PARALLEL_ELEMENTS else 1


def each_vector(elements: int, lanes: int, threads: int, emit: Callable[[Index, int], None]) -> None:
    """``emit(first, width)`` for runs of up to ``lanes`` elements; the last may overlap the one before."""
    width = min(lanes, 1 << (elements.bit_length() - 1))
    whole = elements // width
    with tir.loop(whole, threads_for(elements, threads)) as turn:
        emit(turn * width, width)
    if elements % width:
        emit(elements - width, width)
