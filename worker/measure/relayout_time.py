"""What copying activations between layouts takes on a board, built and timed the way candidates are."""

from __future__ import annotations

import statistics
import tempfile
from itertools import permutations
from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.layout import layouts_for
from kernels.target import Target
from worker.build.artifacts import ArtifactStore
from worker.build.build import ENTRY
from worker.children.nursery import Nursery
from worker.measure.measure import BoardHandle
from worker.measure.session import lock_file

VERSION = 2
"""Raised whenever conversions are generated or timed in another way: times of other versions are not used."""
SHAPES = tuple((1, 64, side, side) for side in (7, 28, 56, 112))
"""From what fits in a first cache to what may fit in none."""
_REPEATS = 15
_COLD_OUTPUT = "cache_flush_cpu_non_first_arg"
_TIMEOUT_S = 120.0


def relayout_seconds(
    nursery: Nursery,
    board: BoardHandle,
    target: Target,
    threads: int,
    *,
    store: ArtifactStore,
    lock_dir: Path,
) -> dict[str, list[tuple[float, float]]]:
    """(elements, median seconds) of a few sizes by ``from>to``, for every pair of layouts.

    What is read is warm, as after the layer that wrote it, and what is written is not: inside a model,
    other tensors were there since. Raises what ``Nursery.call`` raises when it cannot be measured.
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
        payload["paths"] = nursery.call(
            "worker.measure.relayout_time:build_in_child", payload, timeout_s=_TIMEOUT_S
        )
        # Waiting for the board's lock is announced, so only silence counts.
        times: list[float] = nursery.call(
            "worker.measure.relayout_time:time_in_child",
            payload,
            timeout_s=3600.0,
            silence_s=_TIMEOUT_S,
            on_message=lambda _: None,
        )
    found: dict[str, list[tuple[float, float]]] = {}
    for (shape, source, to), seconds in zip(_conversions(target), times, strict=True):
        found.setdefault(f"{source}>{to}", []).append((shape[1] * shape[2] * shape[3], seconds))
    return found


def _conversions(target: Target) -> list[tuple[tuple[int, ...], str, str]]:
    return [
        (shape, source, to)
        for shape in SHAPES
        for source, to in permutations(layouts_for(shape[1], target), 2)
    ]


def build_in_child(payload: dict[str, Any]) -> list[str]:
    """Child: build every conversion; the artifacts' paths."""
    from kernels.emit.compile import compile_object
    from kernels.operators.relayout import build_relayout
    from worker.build.toolchain import link

    tempfile.tempdir = payload["scratch"]
    target = targets.from_json(payload["target"])
    store = ArtifactStore(Path(payload["store"]))
    paths = []
    for shape, source, to in _conversions(target):
        function = build_relayout(shape, source, to, target, payload["threads"], ENTRY)
        paths.append(str(store.put(link(compile_object(function, target)))[1]))
    return paths


def time_in_child(payload: dict[str, Any], send: Any) -> list[float]:
    """Child: the median of several timings of each, in seconds."""
    import numpy as np
    from tvm.runtime import tensor

    from kernels.layout import stored_shape
    from worker.measure.quiet import divider
    from worker.measure.session import connect, stats_reader, take

    target = targets.from_json(payload["target"])
    times = []
    with Path(payload["lock"]).open("w") as lock:
        take(lock, send)
        session = connect(payload["board"], _TIMEOUT_S)
        device, stats, divide = session.cpu(0), stats_reader(session), divider(session)
        repeats = 1 if stats and stats()["simulated"] else _REPEATS
        for number, (shape, source, to) in enumerate(_conversions(target)):
            file = f"relayout-{number}.so"
            session.upload(payload["paths"][number], target=file)
            module = session.load_module(file)
            shapes = (stored_shape(source, shape), stored_shape(to, shape))
            arguments = [tensor(np.zeros(each, np.float32), device) for each in shapes]
            module[ENTRY](*arguments)
            timer = module.time_evaluator(ENTRY, device, number=1, repeat=repeats, f_preproc=_COLD_OUTPUT)
            found = divide(timer(*arguments).results)
            if not found.enough:
                found += divide(timer(*arguments).results)
            times.append(statistics.median(found.counted))
            send({"stage": "timed"})
    return times
