"""Convolution layers on this machine: ours by families, and im2col + OpenBLAS, in turns in this process.

``python -m bench.conv --target host --families sconv`` for the table of seed 003, which is about SConv alone;
without ``--target``, bench.conv tunes all families through the service and has more peers.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bench import ours, timing
from bench.peers import im2col_openblas
from bench.simulated import candidates
from bench.suite import Layer
from kernels.reference import random_inputs
from kernels.target import Target
from tuner.runtimes.turns import take_turns

TOLERANCE = 1e-4
ROUNDS = 7


def rows(layers: Sequence[Layer], families: Sequence[str], count: int) -> Iterator[dict[str, Any]]:
    """Each layer as bench.conv_sim has it; ``cycles`` are nanoseconds of processor time."""
    from worker.measure.host import host_target

    timing.pin(1)
    target = host_target()
    for layer in layers:
        yield {**_row(layer, families, count, target), "layer": layer.name}


def _row(layer: Layer, families: Sequence[str], count: int, target: Target) -> dict[str, Any]:
    """Raises SystemExit when nothing computes the layer, or a result is off."""
    conv = layer.conv
    configs = candidates(conv, target, count, families)
    if not configs:
        raise SystemExit(f"bench.conv: none of {', '.join(families)} computes {conv} on this machine")
    data, weights = random_inputs(conv, np.random.default_rng(0))
    base = im2col_openblas(conv, data, weights, 1)
    runs = {str(at): ours.kernel(conv, each, target, data, weights, 1) for at, each in enumerate(configs)}
    runs["base"] = base
    for each in runs.values():
        each.run()
    expected = base.result()
    for name, each in runs.items():
        off = float(np.abs(each.result() - expected).max() / np.abs(expected).max())
        if not off <= TOLERANCE:
            raise SystemExit(f"bench.conv: {configs[int(name)]} is off by {off:.1e} on {conv}")
    turns = take_turns({name: each.run for name, each in runs.items()}, ROUNDS)
    nanoseconds = {name: 1e9 * statistics.median(each.fair(1)) for name, each in turns.items()}
    found = [{"cycles": nanoseconds[str(at)], "config": each.to_json()} for at, each in enumerate(configs)]
    return {
        "tuned": min(found, key=lambda each: float(str(each["cycles"]))),
        "analysis": found[0],
        "trials": len(found),
        "base": {"core": "OpenBLAS", "call": {"cycles": nanoseconds["base"]}},
    }
