"""A core's peak: multiply-adds in registers only, built and timed the way candidates are.

They are those of the fastest unit that kernels use: outer products where the target has a matrix unit that
they know (``kernels/emit/mma.py``), else multiply-adds of vectors.
"""

from __future__ import annotations

from contextlib import nullcontext
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

STEPS = 200_000
"""How often each sum gets a product in a call."""
_TIMEOUT_S = 60.0
_MATRIX_BLOCKS = {"mma": (8, 16)}
"""Rows and columns of the sums that fill a matrix unit's accumulators, by ``Target.matrix``."""


def peak_gflops(
    nursery: Nursery,
    board: BoardHandle,
    target: Target,
    threads: int,
    *,
    store: ArtifactStore,
    lock_dir: Path,
) -> float:
    """Billions of float32 operations a second that ``threads`` cores of ``board`` reach at best.

    Raises what ``Nursery.call`` raises when it cannot be measured.
    """
    seconds: float = probe(
        __name__, nursery, board, target, threads, store=store, lock_dir=lock_dir, timeout_s=_TIMEOUT_S
    )
    return _operations(target, threads) / seconds / 1e9


def _operations(target: Target, threads: int) -> float:
    return 2.0 * STEPS * sums_of(target) * threads


def sums_of(target: Target) -> int:
    """Sums a thread has, each of which gets a product a step; as many as the registers hold."""
    if target.matrix in _MATRIX_BLOCKS:
        rows, columns = _MATRIX_BLOCKS[target.matrix]
        return rows * columns
    # Beside the two factors they are at least latency x pipes.
    return (target.vector_registers - 4) * target.lanes()


def build_in_child(payload: dict[str, Any]) -> list[str]:
    """Child: build the multiply-add loop; the artifact's path."""
    return build(payload, [multiply_adds(targets.from_json(payload["target"]), payload["threads"])])


def multiply_adds(target: Target, threads: int) -> Any:
    """A function of factors and of the output, where each thread leaves its sums."""
    from kernels.emit import mma, tir
    from kernels.emit.function import Function

    lanes, count, block = target.lanes(), sums_of(target), _MATRIX_BLOCKS.get(target.matrix)
    function = Function(ENTRY, {"factors": (count + lanes,), "out": (threads * count,)})
    with (
        function as (factors, out),
        mma.linked() if block else nullcontext(),
        tir.loop(threads, threads) as thread,
    ):
        registers = tir.registers(count)
        slots = range(0, count, lanes)
        for slot in slots:
            tir.store(registers, factors[tir.vector(slot, lanes)], tir.vector(slot, lanes))
        if block:
            _outer_products(registers, factors, *block)
        else:
            _vector_products(registers, factors, count, lanes)
        for slot in slots:
            value = registers[tir.vector(slot, lanes)]
            tir.store(out, value, tir.vector(thread * count + slot, lanes))
    return function.result()


def _vector_products(registers: Any, factors: Any, count: int, lanes: int) -> None:
    from tvm.script.ir_builder import tirx as T

    from kernels.emit import tir

    scale = T.Bind(factors[tir.vector(count, lanes)])
    with T.serial(0, STEPS):
        for slot in (tir.vector(start, lanes) for start in range(0, count, lanes)):
            # In place: not every processor can leave a sum elsewhere than its summand was.
            tir.store(registers, registers[slot] + registers[slot] * scale, slot)


def _outer_products(registers: Any, factors: Any, rows: int, columns: int) -> None:
    from tvm.script.ir_builder import tirx as T

    from kernels.emit import mma

    products = mma.Accumulators(rows, columns // mma.SIDE)
    products.load(registers)
    with T.serial(0, STEPS):
        products.add(factors, 0, factors, list(range(rows, rows + columns, mma.SIDE)))
    products.store(registers)


def time_in_child(payload: dict[str, Any], send: Any) -> float:
    """Child: the shortest of several timings, in seconds."""
    import numpy as np
    from tvm.runtime import tensor

    target, threads = targets.from_json(payload["target"]), payload["threads"]
    sums = sums_of(target)
    least_s = _operations(target, threads) / plausible.most_flops(target, threads)
    with opened(payload, send) as (session, repeats):
        session.upload(payload["paths"][0], target="peak.so")
        device, module = session.cpu(0), session.load_module("peak.so")
        arrays = [np.zeros(size, np.float32) for size in (sums + target.lanes(), threads * sums)]
        timer = module.time_evaluator(ENTRY, device, number=1, repeat=repeats)
        arguments = [tensor(array, device) for array in arrays]
        return min(timed(timer, arguments, least_s, simulated=repeats == 1))
