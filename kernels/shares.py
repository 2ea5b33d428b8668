"""Sharing tiles out over threads: whole tiles, and a smaller last one where they do not divide evenly.

TVM objects are Any. TVM's runtime gives every thread one run of a parallel loop's iterations, so more parts
than threads would never even anything out.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from kernels import tir


@dataclass(frozen=True)
class Share:
    """One thread's whole tiles, ``first`` up to ``stop``; the edge tile, too, where ``last`` holds.

    Without threads ``last`` is None, which ``tir.when`` and ``tir.choose`` take as always.
    """

    first: Any
    stop: Any
    last: Any


def share(whole: int, edge: bool, part: Any, parts: int) -> Share:
    """The share of thread ``part``: the edge counts as a tile, so that its thread has no more than others."""
    if parts == 1:
        return Share(0, whole, None)
    total = whole + edge
    first = T.Bind(tir.index(part) * total // parts)
    return Share(first, T.Bind(tir.least((part + 1) * total // parts, whole)), part == parts - 1)


def sizes(whole: int, edge: bool, parts: int) -> list[tuple[int, int]]:
    """(whole tiles, edge tiles) of every share, those that are the same once."""
    total = whole + edge
    ends = [part * total // parts for part in range(parts + 1)]
    found = [(min(stop, whole) - first, 0) for first, stop in itertools.pairwise(ends)]
    found[-1] = (found[-1][0], int(edge))
    return list(dict.fromkeys(found))


def grid(threads: int) -> tuple[int, int]:
    """The factors of ``threads`` that differ least, the larger first."""
    smaller = max(divisor for divisor in range(1, math.isqrt(threads) + 1) if threads % divisor == 0)
    return threads // smaller, smaller
