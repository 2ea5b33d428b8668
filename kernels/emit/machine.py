"""The machine model behind every kernel's ``predict``: what arithmetic and data movement cost in cycles.

Coarse on purpose: it has to order configs and kernels, not to forecast times.
"""

from __future__ import annotations

from typing import Literal

from kernels.target import Target

Level = Literal["l2", "l3", "dram"]
"""The cache, or memory, that a line is loaded from when it is not in L1."""

CLOCK_HZ = 3e9
"""Where nobody knows the clock rate."""
CALL_CYCLES = 10
"""Entering and leaving one micro-kernel: addresses, loop control; much of it overlaps with the next."""
LOOP = 4
"""Instructions of a step beside products and loads: addresses, a branch; seen in code for Arm."""
ALONE = 2.0
"""How many line loads overlap where prefetchers lose count of the streams."""
PAGE_BYTES = 4096
"""Lines so far apart share a place in L1."""
CONFLICTS = 1.16
"""What ``crowding`` costs: measured for products and convolutions on a Zen 4, 1.12 to 1.32."""


def seconds(target: Target, cycles: float) -> float:
    """Cycles of one core as seconds."""
    return cycles / (target.hz or CLOCK_HZ)


def store_cycles(target: Target) -> float:
    """Storing one vector, beside other work: a cycle where stores are no slower."""
    return max(1.0, 1 / target.stores_per_cycle)


def move_cycles(target: Target) -> float:
    """Copying one vector between places in the caches: a load, a store, and their addresses."""
    return 1.0 + store_cycles(target)


def step_cycles(target: Target, broadcasts: int, vectors: int, chains: int = 1, together: int = 1) -> float:
    """One step of an outer-product micro-kernel: ``broadcasts`` x ``vectors`` multiply-adds.

    ``chains`` sets of accumulators take turns; with too few of them the adds wait for each other. One load
    brings so many broadcast values ``together``.
    """
    sums, loads = broadcasts * vectors, broadcasts / together + vectors
    begun = (sums + loads + LOOP) / target.issue_width if target.issue_width else 0.0
    busy = max(sums / target.fmas_per_cycle, loads / target.loads_per_cycle)
    return max(busy, begun, target.fma_latency / chains)


def paired(target: Target) -> int:
    """How many neighbours one load brings that are broadcast, where the front end was measured.

    Elsewhere ``loads_per_cycle`` is a fit that has this in it.
    """
    return target.isa.broadcasts if target.issue_width else 1


def crowding(target: Target, lines: int, apart: int) -> float:
    """How much longer steps take that read from ``lines`` lines of L1, ``apart`` bytes from one to the next:
    where that is whole pages few places hold all of them."""
    # One more than there are places for costs nothing yet.
    fitting = target.l1_bytes // min(PAGE_BYTES, apart & -apart) + 1
    return CONFLICTS if lines > fitting else 1.0


def stream_cycles(target: Target, size: float, footprint: float) -> float:
    """Loading ``size`` bytes in order, where ``footprint`` bytes were touched since their last use."""
    return lines_cycles(target, size / target.line_bytes, level_of(target, footprint))


def level_of(target: Target, footprint: float) -> Level | None:
    """The level that still has a byte after ``footprint`` other bytes were touched; None for L1."""
    if footprint <= target.l1_bytes:
        return None
    if footprint <= target.l2_bytes:
        return "l2"
    return "l3" if footprint <= target.l3_bytes else "dram"


def latency(target: Target, level: Level | None) -> float:
    """Cycles that a load waits for a line from a level, beyond one from the first cache."""
    if level is None:
        return 0.0
    return target.l2_cycles if level == "l2" else target.l3_cycles if level == "l3" else target.dram_cycles


def lines_cycles(target: Target, lines: float, level: Level | None) -> float:
    """Loading so many lines in order from a level: as measured, else as many at once as may be under way."""
    if level is None:
        return 0.0
    measured = target.dram_stream_cycles
    if level != "dram":
        measured = target.l2_stream_cycles if level == "l2" else target.l3_stream_cycles
    return lines * measured if measured else lines * latency(target, level) / target.misses_in_flight


def exposed(target: Target, usual: float) -> float:
    """The part of a stream of weights from the second cache that costs time beside products.

    ``usual`` where nobody has measured streams: the figures of a target then say how well they overlap. What
    was measured is what lines cost beyond that, and products do not hide it.
    """
    return 1.0 if target.l2_stream_cycles else usual


def scattered_cycles(target: Target, size: float, footprint: float) -> float:
    """``stream_cycles`` where prefetchers lose count of the streams."""
    return size / target.line_bytes * latency(target, level_of(target, footprint)) / ALONE


def cold_cycles(target: Target, size: float) -> float:
    """Loading ``size`` bytes in order from memory: what weights cost inside a model."""
    return stream_cycles(target, size, float("inf"))


def overlapped(compute: float, stream: float) -> float:
    """Cycles of arithmetic beside a stream from memory, of which prefetching hides only a part."""
    return max(compute, stream) + min(compute, stream) / 2
