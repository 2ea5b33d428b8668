"""What copying activations between layouts takes on a board, built and timed the way candidates are."""

from __future__ import annotations

import math
import statistics
from itertools import permutations
from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.layout import layouts_for
from kernels.target import Target
from worker.build.artifacts import ArtifactStore
from worker.build.build import ENTRY
from worker.children.nursery import Nursery
from worker.measure import plausible
from worker.measure.measure import BoardHandle
from worker.measure.probe import build, opened, probe, timed

VERSION = 2
"""Raised whenever conversions are generated or timed in another way: times of other versions are not used."""
SHAPES = tuple((1, 64, side, side) for side in (7, 28, 56, 112))
"""From what fits in a first cache to what may fit in none."""
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
    times: list[float] = probe(
        __name__, nursery, board, target, threads, store=store, lock_dir=lock_dir, timeout_s=_TIMEOUT_S
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
    from kernels.operators.relayout import build_relayout

    target, threads = targets.from_json(payload["target"]), payload["threads"]
    return build(payload, (build_relayout(*each, target, threads, ENTRY) for each in _conversions(target)))


def time_in_child(payload: dict[str, Any], send: Any) -> list[float]:
    """Child: the median of several timings of each, in seconds."""
    import numpy as np
    from tvm.runtime import tensor

    from kernels.layout import stored_shape
    from worker.measure.quiet import divider

    times = []
    with opened(payload, send) as (session, repeats):
        device, divide = session.cpu(0), divider(session)
        target = targets.from_json(payload["target"])
        conversions = _conversions(target)
        for number, (shape, source, to) in enumerate(conversions):
            file = f"relayout-{number}.so"
            session.upload(payload["paths"][number], target=file)
            module = session.load_module(file)
            shapes = (stored_shape(source, shape), stored_shape(to, shape))
            arguments = [tensor(np.zeros(each, np.float32), device) for each in shapes]
            module[ENTRY](*arguments)
            timer = module.time_evaluator(ENTRY, device, number=1, repeat=repeats, f_preproc=_COLD_OUTPUT)
            least_s = plausible.least_copy_s(math.prod(shape), target, payload["threads"])
            found = divide(timed(timer, arguments, least_s, simulated=repeats == 1))
            if not found.enough:
                found += divide(timed(timer, arguments, least_s, simulated=repeats == 1))
            times.append(statistics.median(found.counted))
            send({"stage": "timed"})
    return times
