"""A second stopwatch: untuned and delivered model in processes of their own, in turns.

A job races both in one process. Here each model runs in a process of its own. New processes are started for
each pair, since the place of a model in memory makes a percent of difference. A second process of the untuned
model tells the stopwatch's own error.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

UNTUNED, DELIVERED, AGAIN = "untuned", "delivered", "untuned again"
ROUNDS, TURN_S = 15, 0.03
REST_S = 0.3
"""With several threads: TVM's spin for a while after a call, and would take a core from the next."""
BUILD_S = 1800


def gain(model: Path, log: Sequence[str], threads: int, pairs: int, folder: Path) -> dict[str, float]:
    """Untuned over delivered of ``model``, which is built by the lines of ``log``.

    ``gain`` is the mean over all pairs, ``low`` and ``high`` are the least and the most of them; ``error`` is
    the untuned model over itself. Files go to ``folder``. Raises SystemExit where a build or a run fails.
    """
    files = {
        UNTUNED: _built(model, [], threads, folder / "untuned"),
        DELIVERED: _built(model, log, threads, folder / "delivered"),
    }
    files[AGAIN] = files[UNTUNED]
    found = [_pair(files, model, threads, random.Random(seed)) for seed in range(pairs)]
    gains = [each[UNTUNED] / each[DELIVERED] for each in found]
    errors = [each[UNTUNED] / each[AGAIN] for each in found]
    return {
        "gain": statistics.geometric_mean(gains),
        "low": min(gains),
        "high": max(gains),
        "error": statistics.geometric_mean(errors),
    }


def _built(model: Path, log: Sequence[str], threads: int, stem: Path) -> Path:
    lines, module = stem.with_suffix(".jsonl"), stem.with_suffix(".so")
    lines.write_text("".join(log))
    command = [sys.executable, "-m", "tilefleet", "build", str(model), "--log", str(lines)]
    command += ["--threads", str(threads), "-o", str(module)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    if done.returncode:
        raise SystemExit(f"bench.tuning: {model.name} was not built: {done.stderr.strip()}")
    return module


def _pair(files: dict[str, Path], model: Path, threads: int, rng: random.Random) -> dict[str, float]:
    """Median seconds a call of each, in new processes."""
    children = {name: _started(path, model, threads) for name, path in files.items()}
    seconds: dict[str, list[float]] = {name: [] for name in files}
    try:
        for child in children.values():
            _answer(child)
        for _ in range(ROUNDS):
            for name in rng.sample([*children], len(children)):
                if threads > 1:
                    time.sleep(REST_S)
                child = children[name]
                assert child.stdin is not None  # asked for
                child.stdin.write("\n")
                child.stdin.flush()
                seconds[name].append(float(_answer(child)))
    finally:
        for child in children.values():
            child.kill()
            child.communicate()
    return {name: statistics.median(each) for name, each in seconds.items()}


def _started(module: Path, model: Path, threads: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.tuning.stopwatch", json.dumps([str(module), str(model), threads])]
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def _answer(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None  # asked for
    line = child.stdout.readline()
    if not line:
        raise SystemExit("bench.tuning: a model that is timed has crashed")
    return line


def _serve(module: Path, model: Path, threads: int) -> None:
    """A child: one turn for each line that comes, and its seconds a call."""
    from compiler.load import load_partition
    from tuner.backend.draws import plain_feeds
    from tuner.runtimes.engines import LOAD

    if threads == 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    run = LOAD["tvm"](module, plain_feeds(load_partition(model).graph), threads).run
    clock = time.process_time if threads == 1 else time.perf_counter
    run()
    start = clock()
    run()
    calls = max(1, math.ceil(TURN_S / max(clock() - start, 1e-6)))
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(calls):
            run()  # the others had the caches meanwhile
        start = clock()
        for _ in range(calls):
            run()
        print((clock() - start) / calls, flush=True)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    _serve(Path(given[0]), Path(given[1]), given[2])
