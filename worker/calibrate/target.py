"""A target with the figures that a calibration has found on one of its boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernels import target as targets
from kernels.target import Target
from worker.calibrate.figure import Figure

_SIZES: Mapping[str, str] = {
    **{name: name for name in ("hz", "line_bytes", "l1_bytes", "l2_bytes", "l3_bytes")},
    "l2_cycles": "l2_cycles",
    "l3_cycles": "l3_cycles",
    "dram_cycles": "memory_cycles",
}
_RATES: Mapping[str, str] = {
    "fmas_per_cycle": "products",
    "fma_latency": "product latency",
    "loads_per_cycle": "load",
    "issue_width": "width",
    "l2_stream_cycles": "l2_stream_cycles",
    "l3_stream_cycles": "l3_stream_cycles",
    "dram_stream_cycles": "memory_stream_cycles",
}
"""Fields of a target by the figure that they are: whole numbers, and others."""
_WRITES = "l1 write"
_DIGITS = 4
_LEAST = 0.01
"""Of what was measured: 0 says that it is not known."""


def with_figures(base: Target, figures: Sequence[Figure], name: str) -> Target:
    """``base`` as a target called ``name`` with the measured ``figures``.

    What was not told is kept, but a third cache that no list finds is none. Raises ValueError where these
    figures are no target.
    """
    found = {each.name: each.value for each in figures if each.value is not None}
    facts: dict[str, float] = {
        field: max(1, round(found[figure])) for field, figure in _SIZES.items() if figure in found
    }
    facts |= {
        field: max(_LEAST, round(found[figure], _DIGITS))
        for field, figure in _RATES.items()
        if figure in found
    }
    if found.get("memory_cycles") and "l3_bytes" not in found:
        facts |= {"l3_bytes": 0, "l3_cycles": 0}
    if _WRITES in found and "hz" in found:
        # GB/s of vectors into the first cache.
        facts["stores_per_cycle"] = round(
            found[_WRITES] * 1e9 / found["hz"] / (base.vector_bits // 8), _DIGITS
        )
    if {"memory_cycles", "memory_stream_cycles"} <= found.keys():
        overlapped = found["memory_cycles"] / max(found["memory_stream_cycles"], 1.0)
        facts["misses_in_flight"] = round(max(1.0, overlapped), _DIGITS)
    return targets.from_json({**targets.to_json(base), **facts, "name": name})
