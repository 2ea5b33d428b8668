"""One layer of bench.conv: the tuned kernel, the analysis's, and every peer, in turns on the same data."""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import numpy as np

from bench import ours, timing
from bench.peers import conv_peers
from bench.suite import Layer
from kernels import registry
from kernels.reference import random_inputs
from kernels.space import Config
from kernels.target import Target
from tuner.runtimes.turns import take_turns

TOLERANCE = 1e-4
"""Largest accepted difference between any two of the results compared, relative to the largest value."""


def compare(
    layer: Layer, tuned: dict[str, Any], target: Target, arguments: argparse.Namespace
) -> dict[str, Any]:
    """The figures of one layer; raises SystemExit when a result is off or the config unknown.

    Rates and ratios are by ``Turns.fair``'s clock, ``wall`` holds the ratios by wall time.
    """
    conv, threads = layer.conv, arguments.threads
    data, weights = random_inputs(conv, np.random.default_rng(arguments.seed))
    configs = {
        "tuned": Config.from_json(tuned["config"]),
        "analysis": registry.recommendations(conv, target, arguments.numerics, threads)[0],
    }
    space = registry.space_of(conv, configs["tuned"], target, threads)
    reason = space if isinstance(space, str) else space.why_not(configs["tuned"])
    if reason is not None:
        raise SystemExit(f"bench.conv: {layer.name} was tuned by other code ({reason}); give another --json")
    runs = {
        kind: ours.kernel(conv, config, target, data, weights, threads) for kind, config in configs.items()
    }
    peers = {name: make(conv, data, weights, threads) for name, make in conv_peers().items()}
    runs |= peers
    for run_once in runs.values():
        run_once.run()
    expected = peers["im2col_openblas"].result()
    for kind, done in runs.items():
        difference = np.abs(done.result() - expected).max() / np.abs(expected).max()
        if not difference <= TOLERANCE:
            raise SystemExit(f"bench.conv: {kind} is off by {difference:.1e} on {layer.name} ({conv})")
    turns = take_turns({kind: done.run for kind, done in runs.items()}, arguments.rounds)
    seconds = {kind: each.fair(threads) for kind, each in turns.items()}
    medians = {kind: statistics.median(times) for kind, times in seconds.items()}
    ratios = {peer: timing.ratio(seconds[peer], seconds["tuned"]) for peer in peers}
    wall = {peer: timing.ratio(turns[peer].wall, turns["tuned"].wall)[0] for peer in peers}
    best = min(peers, key=lambda peer: medians[peer])
    gflops = {kind: conv.flops / time / 1e9 for kind, time in medians.items()}
    return {
        "layer": layer.name,
        "text": str(conv),
        "count": layer.count,
        "stride_1_3x3": (conv.kh, conv.kw, *conv.stride) == (3, 3, 1, 1),
        "gflop": conv.flops / 1e9,
        "tuned_gflops": gflops["tuned"],
        "analysis_gflops": gflops["analysis"],
        "peers": {peer: gflops[peer] for peer in peers},
        "ratios": {peer: {"median": r[0], "p10": r[1], "p90": r[2]} for peer, r in ratios.items()},
        "wall": wall,
        "best_peer": best,
        "ratio_best_peer": ratios[best][0],
        "trials": tuned["trials"],
        "tuned": configs["tuned"].to_json(),
        "analysis": configs["analysis"].to_json(),
    }
