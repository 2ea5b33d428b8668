"""What a board says of a run, checked before it is believed: a board may lie, or be broken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from kernels.target import Target

_HZ = 8e9
_OPS_PER_BYTE = 64.0
"""Operations a cycle for each byte of a vector, that no machine exceeds: some units beside each other, each
multiplying and adding, by matrices of integers, and Winograd's products count for more than they are."""
_MOST = 2**62
BOUNDS = {"temperature_c": (-100.0, 300.0), "frequency_mhz": (1.0, 20_000.0)}
"""What sensors can say."""


class Lie(Exception):
    """A board said what cannot be; the message says what."""


def least_s(operations: float, target: Target, threads: int) -> float:
    """Seconds below which no machine of ``target`` computes ``operations``, by a wide margin."""
    width = max(target.vector_bits, target.integer_vector_bits, 128) / 8
    return max(1 / _HZ, operations / (_HZ * width * _OPS_PER_BYTE * max(1, threads)))


def times(said: Iterable[Any], least: float) -> list[float]:
    """Seconds of single calls; raises Lie for one that is not finite or below ``least``."""
    found = [float(each) for each in said]
    for seconds in found:
        if not math.isfinite(seconds) or seconds < least:
            raise Lie(f"it said that a call took {seconds:g} s; less than {least:.3g} s cannot be")
    return found


def counters(said: Any, names: Sequence[str]) -> dict[str, int]:
    """What a simulated board counted; raises Lie for what is no count."""
    found = {name: said.get(name) for name in names}
    for name, count in found.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < _MOST:
            raise Lie(f"it said that it counted {str(count)[:40]!r} {name}")
    return found


def reading(said: Any, low: float, high: float) -> float | None:
    """What a sensor says; None for what is no number or out of all bounds: a broken sensor times well."""
    if isinstance(said, bool) or not isinstance(said, (int, float)):
        return None
    return float(said) if low <= said <= high else None
