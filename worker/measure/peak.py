"""A core's peak: multiply-adds in registers only, built and timed the way candidates are.

They are those of the fastest unit that kernels use: outer products where the target has a matrix unit that
they know (``kernels/emit/mma.py``), else multiply-adds of vectors.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.target import Target
from worker.build.artifacts import ArtifactStore
from worker.build.build import ENTRY
from worker.children.nursery import Nursery
from worker.measure.measure import BoardHandle
from worker.measure.session import lock_file

_STEPS = 200_000
_REPEATS = 15
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
    with tempfile.TemporaryDirectory(prefix="tilefleet-build-") as scratch:
        payload = {
            "target": targets.to_json(target),
            "threads": threads,
            "store": str(store.folder),
            "scratch": scratch,
            "board": board.address,
            "lock": str(lock_file(lock_dir, board.id)),
        }
        payload["path"] = nursery.call("worker.measure.peak:build_in_child", payload, timeout_s=_TIMEOUT_S)
        # Waiting for the board's lock is announced, so only silence counts.
        seconds: float = nursery.call(
            "worker.measure.peak:time_in_child",
            payload,
            timeout_s=3600.0,
            silence_s=_TIMEOUT_S,
            on_message=lambda _: None,
        )
    return 2.0 * _STEPS * _sums(target) * threads / seconds / 1e9


def _sums(target: Target) -> int:
    """Sums a thread has, each of which gets a product a step; as many as the registers hold."""
    if target.matrix in _MATRIX_BLOCKS:
        rows, columns = _MATRIX_BLOCKS[target.matrix]
        return rows * columns
    # Beside the two factors they are at least latency x pipes.
    return (target.vector_registers - 4) * target.lanes()


def build_in_child(payload: dict[str, Any]) -> str:
    """Child: build the multiply-add loop; the artifact's path."""
    from kernels.emit.compile import compile_object
    from worker.build.toolchain import link

    tempfile.tempdir = payload["scratch"]
    target = targets.from_json(payload["target"])
    store = ArtifactStore(Path(payload["store"]))
    _, path = store.put(link(compile_object(_multiply_adds(target, payload["threads"]), target)))
    return str(path)


def _multiply_adds(target: Target, threads: int) -> Any:
    """A function of factors and of the output, where each thread leaves its sums."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.script.ir_builder import tirx as T

    from kernels.emit import mma, tir

    lanes, count, block = target.lanes(), _sums(target), _MATRIX_BLOCKS.get(target.matrix)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(ENTRY)
        T.func_attr({"tirx.noalias": True, "global_symbol": ENTRY})
        factors = T.arg("factors", T.Buffer((count + lanes,), tir.F32))
        out = T.arg("out", T.Buffer((threads * count,), tir.F32))
        with mma.linked() if block else nullcontext(), tir.loop(threads, threads) as thread:
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
    return builder.get()


def _vector_products(registers: Any, factors: Any, count: int, lanes: int) -> None:
    from tvm.script.ir_builder import tirx as T

    from kernels.emit import tir

    scale = T.Bind(factors[tir.vector(count, lanes)])
    with T.serial(0, _STEPS):
        for slot in (tir.vector(start, lanes) for start in range(0, count, lanes)):
            # In place: not every processor can leave a sum elsewhere than its summand was.
            tir.store(registers, registers[slot] + registers[slot] * scale, slot)


def _outer_products(registers: Any, factors: Any, rows: int, columns: int) -> None:
    from tvm.script.ir_builder import tirx as T

    from kernels.emit import mma

    products = mma.Accumulators(rows, columns // mma.SIDE)
    products.load(registers)
    with T.serial(0, _STEPS):
        products.add(factors, 0, factors, list(range(rows, rows + columns, mma.SIDE)))
    products.store(registers)


def time_in_child(payload: dict[str, Any], send: Any) -> float:
    """Child: the shortest of several timings, in seconds."""
    import numpy as np
    from tvm.runtime import tensor

    from worker.measure.session import connect, stats_reader, take

    target = targets.from_json(payload["target"])
    sums = _sums(target)
    with Path(payload["lock"]).open("w") as lock:
        take(lock, send)
        session = connect(payload["board"], _TIMEOUT_S)
        session.upload(payload["path"], target="peak.so")
        device, module = session.cpu(0), session.load_module("peak.so")
        arrays = [np.zeros(size, np.float32) for size in (sums + target.lanes(), payload["threads"] * sums)]
        arguments = [tensor(array, device) for array in arrays]
        stats = stats_reader(session)
        repeats = 1 if stats and stats()["simulated"] else _REPEATS
        timer = module.time_evaluator(ENTRY, device, number=1, repeat=repeats)
        return float(min(timer(*arguments).results))
