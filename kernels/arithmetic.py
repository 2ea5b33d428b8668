"""Whole numbers shared out: rounded up, and in parts as even as can be."""

from __future__ import annotations


def ceil_div(value: int, divisor: int) -> int:
    """``value / divisor`` rounded up."""
    return -(-value // divisor)


def even(total: int, most: int) -> list[tuple[int, int]]:
    """(size, how many) of as few parts of at most ``most`` as make ``total``: larger ones, then smaller."""
    if total == 0:
        return []
    parts = ceil_div(total, most)
    size, larger = divmod(total, parts)
    return [(size + 1, larger)] * (larger > 0) + [(size, parts - larger)]


def inside(before: int, step: int, count: int, extent: int) -> tuple[int, int]:
    """The range of i in 0..count for which 0 <= i * step - before < extent."""
    first = min(count, max(0, ceil_div(before, step)))
    last = max(first, min(count, (extent - 1 + before) // step + 1))
    return first, last
