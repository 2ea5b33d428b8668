"""A board's figures, measured with kernels of our own that are built and run as candidates are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.target import Target
from worker.build.artifacts import ArtifactStore
from worker.calibrate.figure import Figure
from worker.calibrate.kernel import WORD
from worker.calibrate.pipes import INTEGERS
from worker.children.nursery import Nursery
from worker.measure.measure import BoardHandle
from worker.measure.probe import build, opened, probe

TIMEOUT_S = 600.0
_TIMES_CACHE, _LEAST_BYTES, _MOST_BYTES = 4, 32 << 20, 128 << 20


def calibrate(
    nursery: Nursery, board: BoardHandle, target: Target, *, store: ArtifactStore, lock_dir: Path
) -> list[Figure]:
    """All figures of ``board``. Raises what ``Nursery.call`` raises when they cannot be measured."""
    found = probe(__name__, nursery, board, target, 1, store=store, lock_dir=lock_dir, timeout_s=TIMEOUT_S)
    return [Figure.from_json(each) for each in found]


def memory_bytes(target: Target) -> int:
    """What the largest list goes through: some times as much as the largest cache that is told."""
    caches = max(target.l1_bytes, target.l2_bytes, target.l3_bytes)
    return min(_MOST_BYTES, max(_LEAST_BYTES, _TIMES_CACHE * caches))


def kernels(target: Target) -> Mapping[str, Callable[[], Any]]:
    """What makes each kernel, by its name."""
    from worker.calibrate import memory_kernels as memory
    from worker.calibrate import pipe_kernels as pipes

    words = memory_bytes(target) // WORD
    return {
        "link": partial(memory.link, words),
        "walk": partial(memory.walk, words),
        "burst": partial(memory.burst, words),
        "read": partial(memory.stream, target, words, writes=False),
        "write": partial(memory.stream, target, words, writes=True),
        "clock": partial(pipes.mix, pipes.Mix(1, 0, 0)),
        "integer": partial(pipes.mix, INTEGERS),
        "vector": partial(pipes.mix, pipes.floats_of(target)),
        "load": partial(pipes.mix, pipes.loads_of(target)),
        **{name: partial(pipes.mix, each) for name, each in pipes.wide_of(target).items()},
        "store": pipes.stores,
        "divide": pipes.divide,
        "products": partial(pipes.products, target, pipes.products_of(target)),
        "product chain": partial(pipes.products, target, 1),
    }


def build_in_child(payload: dict[str, Any]) -> list[str]:
    """Child: build the kernels; the artifacts' paths."""
    return build(payload, (make() for make in kernels(targets.from_json(payload["target"])).values()))


def time_in_child(payload: dict[str, Any], send: Any) -> list[dict[str, Any]]:
    """Child: measure; the figures."""
    from worker.calibrate.bench import Bench
    from worker.calibrate.memory import Memory
    from worker.calibrate.pipes import clock, pipes
    from worker.measure.session import stats_reader

    target = targets.from_json(payload["target"])
    most = memory_bytes(target)
    with opened(payload, send) as (session, _):
        paths = dict(zip(kernels(target), payload["paths"], strict=True))
        said = partial(send, {"stage": "timed"})
        bench = Bench(session, paths, target, most // WORD, stats_reader(session), said)
        hz = clock(bench)
        bench.hz = hz.value or 1.0
        found = [hz, *pipes(bench, target)]
        found += Memory(bench, most).figures()
    return [each.to_json() for each in found]
