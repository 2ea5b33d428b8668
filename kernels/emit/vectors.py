"""Parts of vectors and transposes of them: what edges and layout changes need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector


def shuffle(vectors: Sequence[Vector], lanes: Iterable[int]) -> Vector:
    """The chosen lanes of the concatenated vectors, bound to a variable."""
    return T.Bind(tirx.Shuffle(list(vectors), [tir.index(lane) for lane in lanes]))


def pieces(count: int) -> list[tuple[int, int]]:
    """(start, width) of one or two power-of-two vectors that cover ``count`` elements, overlapping."""
    width = 1 << (count.bit_length() - 1)
    return [(0, width)] if width == count else [(0, width), (count - width, width)]


def load_part(buffer: Buffer, at: Index, count: int, lanes: int) -> Vector:
    """``count`` elements from ``at``, then zeros up to ``lanes``; reads nothing beyond the part."""
    if count == lanes:
        return buffer[tir.vector(at, lanes)]
    elements = [buffer[tir.index(at) + lane] for lane in range(count)]
    return shuffle(elements + [tir.number(0.0)] * (lanes - count), range(lanes))


def split(value: Vector, count: int, lanes: int) -> list[tuple[int, int, Vector]]:
    """(start, width, part) of the first ``count`` of a vector's ``lanes`` in pieces that can be stored."""
    if count == lanes:
        return [(0, lanes, value)]
    value = T.Bind(value)
    return [(start, width, shuffle([value], range(start, start + width))) for start, width in pieces(count)]


def transpose(rows: Sequence[Vector]) -> list[Vector]:
    """The transpose of as many vectors as they have lanes, a power of two of at least 4.

    First 4x4 blocks inside quarters of 128 bits (two rounds of unpacks, one instruction each), then whole
    blocks trade places.
    """
    lanes = len(rows)
    blocks = range(0, lanes, 4)
    turned: list[Vector] = []
    for top in range(0, lanes, 4):
        a, b, c, d = rows[top : top + 4]
        low, high = ([b0 + i + s for b0 in blocks for i in at for s in (0, lanes)] for at in ((0, 1), (2, 3)))
        halves = [(shuffle([a, b], at), shuffle([c, d], at)) for at in (low, high)]
        for pair in halves:
            for half in (0, 2):
                order = [b0 + s + half + i for b0 in blocks for s in (0, lanes) for i in (0, 1)]
                turned.append(shuffle(pair, order))
    bit = 4
    while bit < lanes:
        swapped = list(turned)
        for row in (row for row in range(lanes) if not row & bit):
            pair = (turned[row], turned[row | bit])
            swapped[row] = shuffle(
                pair, [lane ^ bit | lanes if lane & bit else lane for lane in range(lanes)]
            )
            order = [lane | lanes if lane & bit else lane | bit for lane in range(lanes)]
            swapped[row | bit] = shuffle(pair, order)
        turned = swapped
        bit *= 2
    return turned
