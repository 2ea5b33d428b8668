"""Whether the caches of a chain fit the memory that they are to lie in."""

from __future__ import annotations

from kernels.target import Target

_KB = 1024


def why_no_room(target: Target, size: int) -> str | None:
    """Why caches of ``size`` bytes do not fit the fast memory of ``target``, or None when they do."""
    room = target.fast_bytes
    if not room or size <= room:
        return None
    return f"its caches need {size / _KB:,.0f} KB, and {target.name} has {room // _KB:,} KB of fast memory"
