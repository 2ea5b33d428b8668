"""Whether the caches of a chain fit the memory that they are to lie in."""

from __future__ import annotations

from math import prod

from kernels.target import Target
from kernels.workload.base import AnyChain

_KB = 1024


def is_worth_trying(chain: AnyChain, target: Target) -> bool:
    """Whether what is between could be kept from leaving caches: the target has fast memory for it, or it
    would take half of the largest cache; of bytes a sixteenth, as these take as long to fetch from the
    second cache as floats do, and much less to multiply."""
    size, most = prod(chain.first.out_shape), max(target.l2_bytes, target.l3_bytes)
    return bool(target.fast_bytes) or (2 * 4 * size > most if chain.unit == "FLOP" else 16 * size > most)


def why_no_room(target: Target, size: int) -> str | None:
    """Why caches of ``size`` bytes do not fit the fast memory of ``target``, or None when they do."""
    room = target.fast_bytes
    if not room or size <= room:
        return None
    return f"its caches need {size / _KB:,.0f} KB, and {target.name} has {room // _KB:,} KB of fast memory"
