"""A core's peak: multiply-adds in registers only, built and timed the way candidates are."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.target import Target
from worker.artifacts import ArtifactStore
from worker.build import ENTRY
from worker.measure import BoardHandle
from worker.nursery import Nursery

_STEPS = 200_000
_REPEATS = 15
_TIMEOUT_S = 60.0


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
            "lock": str(lock_dir / f"board-{board.id}.lock"),
        }
        payload["path"] = nursery.call("worker.peak:build_in_child", payload, timeout_s=_TIMEOUT_S)
        # Waiting for the board's lock is announced, so only silence counts.
        seconds: float = nursery.call(
            "worker.peak:time_in_child",
            payload,
            timeout_s=3600.0,
            silence_s=_TIMEOUT_S,
            on_message=lambda _: None,
        )
    return 2.0 * _STEPS * _accumulators(target) * target.lanes() * threads / seconds / 1e9


def _accumulators(target: Target) -> int:
    """As many independent chains as there are registers beside the two factors: at least latency x pipes."""
    return target.vector_registers - 4


def build_in_child(payload: dict[str, Any]) -> str:
    """Child: build the multiply-add loop; the artifact's path."""
    from kernels.compile import compile_object
    from worker.toolchain import link

    tempfile.tempdir = payload["scratch"]
    target = targets.from_json(payload["target"])
    store = ArtifactStore(Path(payload["store"]))
    _, path = store.put(link(compile_object(_multiply_adds(target, payload["threads"]), target)))
    return str(path)


def _multiply_adds(target: Target, threads: int) -> Any:
    """A function of factor and start, a vector each, and the output, where each thread leaves its sums."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.script.ir_builder import tirx as T

    from kernels import tir

    lanes, count = target.lanes(), _accumulators(target)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(ENTRY)
        T.func_attr({"tirx.noalias": True, "global_symbol": ENTRY})
        factors = T.arg("factors", T.Buffer((2 * lanes,), tir.F32))
        out = T.arg("out", T.Buffer((threads * count * lanes,), tir.F32))
        with tir.loop(threads, threads) as thread:
            registers = tir.registers(count * lanes)
            slots = [tir.vector(number * lanes, lanes) for number in range(count)]
            for slot in slots:
                tir.store(registers, factors[tir.vector(lanes, lanes)], slot)
            scale = T.Bind(factors[tir.vector(0, lanes)])
            with T.serial(0, _STEPS):
                for slot in slots:
                    # In place: not every processor can leave a sum elsewhere than its summand was.
                    tir.store(registers, registers[slot] + registers[slot] * scale, slot)
            for number, slot in enumerate(slots):
                tir.store(out, registers[slot], tir.vector((thread * count + number) * lanes, lanes))
    return builder.get()


def time_in_child(payload: dict[str, Any], send: Any) -> float:
    """Child: the shortest of several timings, in seconds."""
    import numpy as np
    from tvm.runtime import tensor

    from worker.session import connect, stats_reader, take

    target = targets.from_json(payload["target"])
    lanes, elements = target.lanes(), payload["threads"] * _accumulators(target) * target.lanes()
    with Path(payload["lock"]).open("w") as lock:
        take(lock, send)
        session = connect(payload["board"], _TIMEOUT_S)
        session.upload(payload["path"], target="peak.so")
        device, module = session.cpu(0), session.load_module("peak.so")
        factors = np.repeat(np.array([0.0, 1.0], np.float32), lanes)
        arguments = [tensor(array, device) for array in (factors, np.zeros(elements, np.float32))]
        stats = stats_reader(session)
        repeats = 1 if stats and stats()["simulated"] else _REPEATS
        timer = module.time_evaluator(ENTRY, device, number=1, repeat=repeats)
        return float(min(timer(*arguments).results))
