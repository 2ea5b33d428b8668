"""Whether a chain is worth it, and whether what is to lie in fast memory fits there."""

from __future__ import annotations

from math import prod

from kernels.target import Target
from kernels.workload.base import AnyChain

_KB = 1024


def is_worth_trying(chain: AnyChain, target: Target) -> bool:
    """Whether a chain could save much: the target has fast memory, or what is between would take half of
    the largest cache; of bytes a sixteenth, as these take as long to fetch from the second cache as floats
    do, and much less to multiply."""
    size, most = prod(chain.first.out_shape), max(target.l2_bytes, target.l3_bytes)
    return bool(target.fast_bytes) or (2 * 4 * size > most if chain.unit == "FLOP" else 16 * size > most)


def why_no_room(target: Target, size: int) -> str | None:
    """Why filters of ``size`` bytes do not fit the fast memory of ``target``, or None when they do."""
    room = target.fast_bytes
    if not room or size <= room:
        return None
    return f"its filters need {size / _KB:,.1f} KB, and {target.name} has {room // _KB:,} KB of fast memory"
