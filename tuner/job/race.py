"""The race of a job's verdict: untuned model, delivered model and a peer, in turns in this process."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tvm

from compiler.readers.model_file import is_tflite
from tuner.backend.verdict import Verdict
from tuner.runtimes.engines import LOAD, Array
from tuner.runtimes.prepare import installed
from tuner.runtimes.turns import take_turns

GROUPS, ROUNDS, TURN_S = 5, 5, 0.02
"""So often all are loaded anew, and take so many turns, which are at least so long."""
SURE = 0.01
"""There are more groups until the gain is known so well, or turns have taken too long."""
LONGEST_S, LEAST_GROUPS = 240.0, 2
"""When turns have taken so long, there are no more groups at all, but so many at least."""


def race(
    files: Mapping[str, Path],
    model: Path,
    feeds: Mapping[str, Array],
    threads: int,
    more_s: float,
    told: Callable[[], None],
) -> tuple[Verdict, float]:
    """The verdict on built models: ``files`` has DELIVERED, and UNTUNED unless both are the same.

    ``model`` is what they were built from. Its own runtime takes part where it is installed and computes
    these ``feeds``: LiteRT for TFLite files, onnxruntime for others. Where the gain is not known well after
    GROUPS of turns, there are more until all have taken ``more_s`` seconds. ``told`` hears of every group.
    The second value are the seconds of those that were more.
    """
    entrants = {name: ("tvm", path) for name, path in files.items()}
    peer = peer_of(model, feeds, threads)
    if peer:
        entrants[peer] = (peer, model)
    groups: list[dict[str, list[float]]] = []
    started, least_s = time.perf_counter(), 0.0
    while not _enough(groups, time.perf_counter() - started, more_s):
        # Who is loaded first has other memory than who comes last, and each leaves its data in the caches.
        order = random.Random(len(groups)).sample([*entrants], len(entrants))
        with TemporaryDirectory(prefix="tilefleet-race-") as folder:
            runs: dict[str, Callable[[], object]] = {}
            for name in order:
                runtime, path = entrants[name]
                if runtime == "tvm":
                    # A library that is loaded already is not loaded again, but a copy is.
                    path = Path(shutil.copy(path, Path(folder) / f"{name}.so"))
                runs[name] = LOAD[runtime](path, feeds, threads).run
            groups.append(
                {name: turns.fair(threads) for name, turns in take_turns(runs, ROUNDS, TURN_S).items()}
            )
            runs.clear()
        _forget_memory()
        told()
        least_s = time.perf_counter() - started if len(groups) <= GROUPS else least_s
    return Verdict.of(groups, peer), time.perf_counter() - started - least_s


def _enough(groups: Sequence[Mapping[str, Sequence[float]]], spent_s: float, more_s: float) -> bool:
    if len(groups) < GROUPS:
        return len(groups) >= LEAST_GROUPS and spent_s > LONGEST_S
    return spent_s > more_s or Verdict.of(groups).known_within(SURE)


def peer_of(model: Path, feeds: Mapping[str, Array], threads: int) -> str:
    """The runtime that the model was written for, or an empty name where it does not run it here."""
    name = "litert" if is_tflite(model) else "onnxruntime"
    if name not in installed():
        return ""
    try:
        LOAD[name](model, feeds, threads).run()
    except Exception:  # a library of others raises what it likes
        return ""
    return name


def _forget_memory() -> None:
    """Give back what TVM's machines keep for the next ones, which would get the same places."""
    clear: Any = tvm.get_global_func("vm.builtin.memory_manager.clear")
    clear()
