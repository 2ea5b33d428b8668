"""Functions of our own that say something about a board, built and timed the way candidates are."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.target import Target
from worker.build.artifacts import ArtifactStore
from worker.children.nursery import Nursery
from worker.measure import plausible
from worker.measure.measure import BoardHandle
from worker.measure.session import connect, lock_file, stats_reader, take

_REPEATS = 15


def probe(
    module: str,
    nursery: Nursery,
    board: BoardHandle,
    target: Target,
    threads: int,
    *,
    store: ArtifactStore,
    lock_dir: Path,
    timeout_s: float,
) -> Any:
    """What ``time_in_child`` of ``module`` finds on ``board``, with the paths its ``build_in_child`` made.

    Raises what ``Nursery.call`` raises, also where either is silent for ``timeout_s``.
    """
    with tempfile.TemporaryDirectory(prefix="tilefleet-build-") as scratch:
        payload = {
            "target": targets.to_json(target),
            "threads": threads,
            "store": str(store.folder),
            "scratch": scratch,
            "board": board.address,
            "lock": str(lock_file(lock_dir, board.id)),
            "timeout_s": timeout_s,
        }
        payload["paths"] = nursery.call(f"{module}:build_in_child", payload, timeout_s=timeout_s)
        # Waiting for the board's lock is announced, so only silence counts.
        return nursery.call(
            f"{module}:time_in_child",
            payload,
            timeout_s=3600.0,
            silence_s=timeout_s,
            on_message=lambda _: None,
        )


def build(payload: dict[str, Any], functions: Iterable[Any]) -> list[str]:
    """Child: the paths of the artifacts of PrimFuncs."""
    from kernels.emit.compile import compile_object
    from worker.build.toolchain import link

    tempfile.tempdir = payload["scratch"]
    target, store = targets.from_json(payload["target"]), ArtifactStore(Path(payload["store"]))
    return [str(store.put(link(compile_object(function, target)))[1]) for function in functions]


def timed(
    timer: Callable[..., Any], arguments: Sequence[Any], least_s: float, *, simulated: bool
) -> list[float]:
    """Child: seconds of the repeats of a timer, if they can be; raises plausible.Lie."""
    started = time.perf_counter()
    results = timer(*arguments).results
    spent = time.perf_counter() - started
    return plausible.times(results, least_s, plausible.LONGEST_S if simulated else spent)


@contextmanager
def opened(payload: dict[str, Any], send: Any) -> Iterator[tuple[Any, int]]:
    """Child: a session with the board under its lock, and how often to repeat a timing."""
    with Path(payload["lock"]).open("w") as lock:
        take(lock, send)
        session = connect(payload["board"], payload["timeout_s"])
        stats = stats_reader(session)
        yield session, 1 if stats and stats()["simulated"] else _REPEATS
