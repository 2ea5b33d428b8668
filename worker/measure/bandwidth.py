"""What memory gives to cores: an array that no cache holds is read, built and timed as candidates are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.target import Target
from worker.build.artifacts import ArtifactStore
from worker.build.build import ENTRY
from worker.children.nursery import Nursery
from worker.measure import plausible
from worker.measure.measure import BoardHandle
from worker.measure.probe import build, opened, probe, timed

_TIMEOUT_S = 60.0
_TIMES_CACHE = 4
_LEAST_BYTES, _MOST_BYTES = 8 << 20, 256 << 20
_ACCUMULATORS = 8
"""Vectors summed at once: enough loads in flight, and few enough registers anywhere."""


def bandwidth_gbs(
    nursery: Nursery,
    board: BoardHandle,
    target: Target,
    threads: int,
    *,
    store: ArtifactStore,
    lock_dir: Path,
) -> float:
    """Billions of bytes a second that ``threads`` cores of ``board`` read from memory.

    Raises what ``Nursery.call`` raises when it cannot be measured.
    """
    seconds: float = probe(
        __name__, nursery, board, target, threads, store=store, lock_dir=lock_dir, timeout_s=_TIMEOUT_S
    )
    return _bytes(target, threads) / seconds / 1e9


def _bytes(target: Target, threads: int) -> float:
    return 4.0 * threads * _steps(target, threads) * _block(target)


def _block(target: Target) -> int:
    return _ACCUMULATORS * target.lanes()


def _steps(target: Target, threads: int) -> int:
    """How many blocks each thread reads: several times the largest cache, within what any board has."""
    caches = max(target.l1_bytes, target.l2_bytes, target.l3_bytes)
    size = min(_MOST_BYTES, max(_LEAST_BYTES, _TIMES_CACHE * caches))
    return size // (4 * threads * _block(target))


def build_in_child(payload: dict[str, Any]) -> list[str]:
    """Child: build the loop that reads; the artifact's path."""
    return build(payload, [_sums(targets.from_json(payload["target"]), payload["threads"])])


def _sums(target: Target, threads: int) -> Any:
    """A function of the array and of the output, where each thread leaves its sums."""
    from tvm.script.ir_builder import tirx as T

    from kernels.emit import tir
    from kernels.emit.function import Function

    lanes, block, steps = target.lanes(), _block(target), _steps(target, threads)
    function = Function(ENTRY, {"data": (threads * steps * block,), "out": (threads * block,)})
    with function as (data, out), tir.loop(threads, threads) as thread:
        registers = tir.registers(block)
        slots = range(0, block, lanes)
        for slot in slots:
            first = data[tir.vector(thread * steps * block + slot, lanes)]
            tir.store(registers, first, tir.vector(slot, lanes))
        with T.serial(1, steps) as step:
            for slot in slots:
                at = tir.vector((thread * steps + step) * block + slot, lanes)
                tir.store(registers, registers[tir.vector(slot, lanes)] + data[at], tir.vector(slot, lanes))
        for slot in slots:
            value = registers[tir.vector(slot, lanes)]
            tir.store(out, value, tir.vector(thread * block + slot, lanes))
    return function.result()


def time_in_child(payload: dict[str, Any], send: Any) -> float:
    """Child: the shortest of several timings, in seconds."""
    import numpy as np
    from tvm.runtime import tensor

    target, threads = targets.from_json(payload["target"]), payload["threads"]
    block, least_s = _block(target), _bytes(target, threads) / plausible.most_bytes(target, threads)
    with opened(payload, send) as (session, repeats):
        session.upload(payload["paths"][0], target="bandwidth.so")
        device, module = session.cpu(0), session.load_module("bandwidth.so")
        sizes = (threads * _steps(target, threads) * block, threads * block)
        # Written, not only asked for: pages that nobody wrote may all be the same one.
        arrays = [tensor(np.ones(size, np.float32), device) for size in sizes]
        timer = module.time_evaluator(ENTRY, device, number=1, repeat=repeats)
        return min(timed(timer, arrays, least_s, simulated=repeats == 1))
