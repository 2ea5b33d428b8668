"""What a board says of a run, checked before it is believed: a board may lie, or be broken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from kernels.target import Target
from kernels.workload.base import Conv2d, NarrowGemm, Workload

_HZ = 8e9
"""The fastest clock of any machine; of one that tells its usual clock rate, twice that and 4 GHz at least."""
_OPS_PER_BYTE = 64.0
"""Operations a cycle for each byte of a vector, that no machine exceeds: some units beside each other, each
multiplying and adding, by matrices of integers, and Winograd's products count for more than they are."""
_MATRIX, _WINOGRAD = 4.0, 6.5
"""By how much a matrix unit of floats, and Winograd's largest tile of eight points, beat vectors at most."""
_OF_PEAK = 3.0
"""What a kernel that makes each product may reach of the peak that its board was measured to have."""
_LOADS = 4.0
"""Vectors that a core loads a cycle at most, wherever they are."""
_SLOWEST, LONGEST_S = 1e3, 3600.0
"""Operations or bytes a second that every board reaches, and what no call takes."""
_SLACK, _SLACK_S = 1.5, 0.01
"""How far a board's clock may be from ours."""
_MOST = 2**62
BOUNDS = {"temperature_c": (-100.0, 300.0), "frequency_mhz": (1.0, 20_000.0)}
"""What sensors can say."""


class Lie(Exception):
    """A board said what cannot be; the message says what."""


def least_s(operations: float, target: Target, threads: int) -> float:
    """Seconds below which no machine of ``target`` computes ``operations``, by a wide margin."""
    width = max(target.vector_bits, target.integer_vector_bits, 128) / 8
    return max(1 / _HZ, operations / (_HZ * width * _OPS_PER_BYTE * max(1, threads)))


def least_s_of(workload: Workload, target: Target, threads: int) -> float:
    """The same of a workload; of floats by what vectors multiply, even with Winograd."""
    general = least_s(workload.flops, target, threads)
    if not _of_float_products(workload):
        return general
    return max(general, workload.flops / (_WINOGRAD * most_flops(target, threads)))


def beyond_peak(workload: Workload, kernel: str, gflops: float, peak_gflops: float) -> str:
    """Why a board that has said it has such a peak cannot compute so fast; empty where it may.

    What else ran on it can have made the peak too small, but not by so much.
    """
    most = _WINOGRAD if kernel.startswith("winograd") else _OF_PEAK
    if not _of_float_products(workload) or gflops <= most * peak_gflops:
        return ""
    return (
        f"it said that it computed {gflops:.4g} GFLOP/s, and that its peak is {peak_gflops:.4g}: "
        f"{gflops / peak_gflops:.3g} times that cannot be"
    )


def _of_float_products(workload: Workload) -> bool:
    """Whether all that is counted must be multiplied as floats: products of integers are faster, and those
    with padding need not be made."""
    if workload.unit != "FLOP" or isinstance(workload, NarrowGemm):
        return False
    return not any(_mostly_padding(part) for part in getattr(workload, "parts", (workload,)))


def _mostly_padding(workload: Any) -> bool:
    return isinstance(workload, Conv2d) and (workload.in_h < workload.kh or workload.in_w < workload.kw)


def most_flops(target: Target, threads: int) -> float:
    """Float operations a second that no machine of ``target`` exceeds, each a real multiplication or sum."""
    units = 2 * target.fmas_per_cycle * (_MATRIX if target.matrix else 1.0)
    return 2 * target.lanes() * units * _clock(target) * max(1, threads)


def most_bytes(target: Target, threads: int) -> float:
    """Bytes a second that no machine of ``target`` reads or writes, not even of its first cache."""
    return (
        _LOADS
        * max(target.vector_bits, target.integer_vector_bits, 128)
        / 8
        * _clock(target)
        * max(1, threads)
    )


def _clock(target: Target) -> float:
    return max(2.0 * target.hz, 4e9) if target.hz else _HZ


def times(said: Iterable[Any], least: float, most: float = math.inf) -> list[float]:
    """Seconds of single calls; raises Lie for one that is not finite or below ``least``, and where all of
    them took more than ``most``, the seconds that whoever waited for them waited."""
    found = [float(each) for each in said]
    for seconds in found:
        if not math.isfinite(seconds) or seconds < least:
            raise Lie(f"it said that a call took {seconds:g} s; less than {least:.3g} s cannot be")
    if sum(found) > _SLACK * most + _SLACK_S:
        raise Lie(f"it said that calls took {sum(found):g} s; they were over after {most:.3g} s")
    return found


def peak(gflops: Any, target: Target, threads: int) -> bool:
    """Whether a machine of ``target`` may have such a peak."""
    return _number(gflops) and _SLOWEST <= 1e9 * gflops <= most_flops(target, threads)


def bandwidth(gbs: Any, target: Target, threads: int) -> bool:
    """Whether a machine of ``target`` may read so many billions of bytes a second."""
    return _number(gbs) and _SLOWEST <= 1e9 * gbs <= most_bytes(target, threads)


def least_copy_s(elements: float, target: Target, threads: int) -> float:
    """Seconds below which no machine of ``target`` copies so many floats."""
    return max(1 / _HZ, 4 * elements / most_bytes(target, threads))


def copies(pairs: Any, target: Target, threads: int) -> bool:
    """Whether these are (elements, seconds) that copies of floats may take on a machine of ``target``."""
    return isinstance(pairs, Sequence) and all(
        isinstance(pair, Sequence)
        and len(pair) == 2
        and all(map(_number, pair))
        and pair[0] > 0
        and least_copy_s(pair[0], target, threads) <= pair[1] <= LONGEST_S
        for pair in pairs
    )


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


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
