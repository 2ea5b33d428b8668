"""The machine model behind every kernel's ``predict``: what arithmetic and data movement cost in cycles.

Coarse on purpose: it has to order configs and kernels, not to forecast times.
"""

from __future__ import annotations

from kernels.target import Target

CLOCK_HZ = 3e9
FMA_LATENCY = 4
CALL_CYCLES = 10
"""Entering and leaving one micro-kernel: addresses, loop control; much of it overlaps with the next."""
MOVE_CYCLES = 2
"""Copying one vector between places in the caches: a load, a store, and their addresses."""

ALONE = 2.0
"""How many line loads overlap where prefetchers lose count of the streams."""
PAGE_BYTES = 4096
"""Lines so far apart share a place in L1."""
CONFLICTS = 1.16
"""What ``crowding`` costs: measured for products and convolutions on a Zen 4, 1.12 to 1.32."""


def seconds(cycles: float) -> float:
    """Cycles of one core as seconds."""
    return cycles / CLOCK_HZ


def step_cycles(target: Target, broadcasts: int, vectors: int, chains: int = 1) -> float:
    """One step of an outer-product micro-kernel: ``broadcasts`` x ``vectors`` multiply-adds.

    ``chains`` sets of accumulators take turns; with too few of them the adds wait for each other.
    """
    arithmetic = broadcasts * vectors / target.fmas_per_cycle
    loads = (broadcasts + vectors) / target.loads_per_cycle
    return max(arithmetic, loads, FMA_LATENCY / chains)


def crowding(target: Target, lines: int, apart: int) -> float:
    """How much longer steps take that read from ``lines`` lines of L1, ``apart`` bytes from one to the next:
    where that is whole pages few places hold all of them."""
    # One more than there are places for costs nothing yet.
    fitting = target.l1_bytes // min(PAGE_BYTES, apart & -apart) + 1
    return CONFLICTS if lines > fitting else 1.0


def stream_cycles(target: Target, size: float, footprint: float) -> float:
    """Loading ``size`` bytes in order, where ``footprint`` bytes were touched since their last use."""
    if footprint <= target.l1_bytes:
        return 0.0
    if footprint <= target.l2_bytes:
        line = target.l2_cycles
    elif footprint <= target.l3_bytes:
        line = target.l3_cycles
    else:
        line = target.dram_cycles
    return size / target.line_bytes * line / target.misses_in_flight


def cold_cycles(target: Target, size: float) -> float:
    """Loading ``size`` bytes in order from memory: what weights cost inside a model."""
    return stream_cycles(target, size, float("inf"))


def overlapped(compute: float, stream: float) -> float:
    """Cycles of arithmetic beside a stream from memory, of which prefetching hides only a part."""
    return max(compute, stream) + min(compute, stream) / 2
