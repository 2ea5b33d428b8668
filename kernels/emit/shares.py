"""Sharing tiles out over threads: whole tiles, and a smaller last one where they do not divide evenly.

TVM's runtime gives every thread one run of a parallel loop's iterations, so more parts
than threads would never even anything out.
"""

from __future__ import annotations

import itertools
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.tvm import T
from kernels.emit.types import Expr, Index


@dataclass(frozen=True)
class Share:
    """One thread's whole tiles, ``first`` up to ``stop``; the edge tile, too, where ``last`` holds.

    Without threads ``last`` is None, which ``tir.when`` and ``tir.choose`` take as always.
    """

    first: Index
    stop: Index
    last: Expr | None


def share(whole: int, edge: bool, part: Index, parts: int) -> Share:
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


def span(total: int, part: Index, parts: int) -> tuple[Index, Index]:
    """The run of ``range(total)`` that is thread ``part``'s: its first and its end."""
    return T.Bind(part * total // parts), T.Bind((part + 1) * total // parts)


def turns(total: int, part: Index, parts: int) -> AbstractContextManager[Expr]:
    """A loop over that run."""
    if parts == 1:
        return tir.loop(total)
    frame: AbstractContextManager[Expr] = T.serial(part * total // parts, (part + 1) * total // parts)
    return frame


def grid(threads: int) -> tuple[int, int]:
    """The factors of ``threads`` that differ least, the larger first."""
    smaller = max(divisor for divisor in range(1, math.isqrt(threads) + 1) if threads % divisor == 0)
    return threads // smaller, smaller


def parts(threads: int, split: str, names: tuple[str, str, str]) -> tuple[int, int]:
    """Into how many shares ``threads`` divide each of two kinds of tiles: ``names`` are those of the first
    kind, of the second and of both, and ``split`` is one of them."""
    return {names[0]: (threads, 1), names[1]: (1, threads), names[2]: grid(threads)}[split]
