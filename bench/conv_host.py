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
from bench.conv_shares import PARTS, without
from bench.peers import Peer, im2col_openblas
from bench.simulated import candidates
from bench.suite import Layer
from kernels.emit.compile import compile_module
from kernels.reference import random_inputs
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Conv2d
from tuner.runtimes.turns import take_turns

TOLERANCE = 1e-4
ROUNDS = 7
SLICED = "sconv"


def rows(
    layers: Sequence[Layer], families: Sequence[str], count: int, with_shares: bool
) -> Iterator[dict[str, Any]]:
    """Each layer as bench.conv_sim has it; ``cycles`` are nanoseconds of processor time."""
    from worker.measure.host import host_target

    timing.pin(1)
    target = host_target()
    peak = _flops_a_nanosecond(target)
    for layer in layers:
        row = {**_row(layer, families, count, target), "layer": layer.name, "peak": peak}
        row["vector_bits"] = target.vector_bits
        config = Config.from_json(row["tuned"]["config"])
        if with_shares and config.kernel == SLICED:
            row["shares"] = _shares(layer.conv, config, target)
        yield row


def _flops_a_nanosecond(target: Target) -> float:
    """What this core reaches by multiply-adds in registers."""
    import tvm

    from worker.build.build import ENTRY
    from worker.measure.peak import STEPS, multiply_adds, sums_of

    function, sums = compile_module(multiply_adds(target, 1), target)[ENTRY], sums_of(target)
    arrays = [tvm.runtime.tensor(np.zeros(size, np.float32)) for size in (sums + target.lanes(), sums)]
    seconds = min(take_turns({"peak": lambda: function(*arrays)}, ROUNDS)["peak"].cpu)
    return 2.0 * STEPS * sums / seconds / 1e9


def _shares(conv: Conv2d, config: Config, target: Target) -> dict[str, dict[str, float]]:
    """Nanoseconds of packing and of the micro-kernel beside the whole call, and of the base's im2col.

    A part is what a call takes less without it. What OpenBLAS packs inside a product is not among it.
    """
    data, weights = random_inputs(conv, np.random.default_rng(0))

    def kernel() -> Peer:
        return ours.kernel(conv, config, target, data, weights, 1)

    runs = {"call": kernel(), "base": im2col_openblas(conv, data, weights, 1)}
    for part, method in PARTS.items():
        with without(method):
            runs[part] = kernel()
    depth = conv.in_c * conv.taps
    product = weights.reshape(conv.out_c, depth), np.empty((depth, conv.windows), np.float32)
    product[1].fill(0.5)
    turns = take_turns(
        {name: each.run for name, each in runs.items()} | {"product": lambda: np.matmul(*product)}, ROUNDS
    )
    took = {name: 1e9 * statistics.median(each.fair(1)) for name, each in turns.items()}
    parts = {part: max(0.0, took["call"] - took[part]) for part in PARTS}
    unfolding = max(0.0, took["base"] - took["product"]) if conv.taps > 1 or max(conv.stride) > 1 else 0.0
    return {
        "ours": {"call": took["call"], **parts},
        "base": {"call": took["base"], "im2col": unfolding},
    }


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
