"""Convolution layers on a simulated board: ours, and im2col + OpenBLAS for its processor, by the same clock.

python -m bench.conv --target power10-sim --suite FILE.csv --sample 12 --families sconv,sconv_mma --json FILE

Both are counted call against call: the second one, with what stays in the caches there, nothing fixed on
either side. Of ours, the analysis's config and those predicted best are measured (``--candidates``). FILE is
written after every layer; called again with the same settings, the bench goes on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench import journal, openblas, timing
from bench.conv_shares import shares
from bench.simulated import Bench, bench_on, candidates
from bench.suite import Layer, read_suite, sample
from kernels.reference import random_inputs, reference
from kernels.space import Config
from kernels.target import CATALOGUE, Target
from tuner.runtimes.debian import FetchError
from worker.fleet.drivers.sim_models import SIM_MODELS

SETTINGS = ("target", "suite", "seed", "families", "candidates", "budget_s")
CACHE = Path("~/.cache/tilefleet/peers").expanduser()
OFF = 1e-4
"""How far a peer's result may be from the reference, relative to the largest value."""
HOST = "host"
SLICED = ("sconv", "sconv_mma")
AT_ONCE = 2
"""Configs that are measured between two looks at the time."""
WIDE = 64
"""Layers with so many channels and filters are a class of their own."""
PEAK_FLOPS_A_CYCLE = {"power10-sim": 64, "rpi4-sim": 8}
"""Two outer products of 4x4 on POWER10, one multiply-add of four lanes on the A72."""


def main(arguments_given: Sequence[str]) -> None:
    """Run the bench and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.conv --target BOARD", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--target", choices=[*sorted(openblas.BUILDS), HOST], required=True)
    parser.add_argument("--suite", type=Path, required=True, help="CSV of layers, columns as bench/suite.py")
    parser.add_argument("--sample", default="12", help="how many layers to draw, or all (default 12)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", default="", help="kernels, by commas (default: all that compute it)")
    parser.add_argument("--candidates", type=int, default=8, help="configs measured a layer (default 8)")
    parser.add_argument("--budget-s", type=float, default=120, help="begin no config after it (default 120)")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where OpenBLAS is kept ({CACHE})")
    parser.add_argument(
        "--shares", action="store_true", help="what packing takes of both (of ours: of sconv, sconv_mma)"
    )
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args(arguments_given)
    settings = {name: getattr(arguments, name) for name in SETTINGS} | {"suite": arguments.suite.stem}
    try:
        count = 0 if arguments.sample == "all" else int(arguments.sample)
        layers = sample(read_suite(arguments.suite), count, arguments.seed)
        report = journal.opened(arguments.json, "conv_sim", settings)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    peer = None
    try:
        if arguments.target != HOST:
            peer = openblas.fetch(arguments.target, arguments.cache)
    except FetchError as error:
        print(f"no im2col + OpenBLAS here: {error}")
    rows = report.setdefault("rows", [])
    done = {row["layer"] for row in rows}
    for row in _rows([layer for layer in layers if layer.name not in done], arguments, peer):
        rows.append(row)
        journal.save(arguments.json, report)
        print(line(row), flush=True)
    print(summary(rows))


def _rows(
    layers: list[Layer], arguments: argparse.Namespace, peer: openblas.OpenBlas | None
) -> Iterator[dict[str, Any]]:
    if not layers:
        return
    families = [name for name in arguments.families.split(",") if name]
    if arguments.target == HOST:
        from bench import conv_host

        made = conv_host.rows(layers, families, arguments.candidates, arguments.shares)
        for layer, found in zip(layers, made, strict=True):
            yield {**_about(layer, 0), **found}
        return
    target = CATALOGUE[SIM_MODELS[arguments.target].target]
    with bench_on(arguments.target) as bench, ThreadPoolExecutor(1) as beside:
        for layer in layers:
            # Each has its own clock, so neither disturbs the other.
            counted = beside.submit(base, layer, peer, bench.folder) if peer else None
            try:
                found = ours(layer, target, bench, families, arguments.candidates, arguments.budget_s)
            except SystemExit as reason:  # the rest of the table is made
                print(reason, flush=True)
                continue
            about = _about(layer, PEAK_FLOPS_A_CYCLE[arguments.target])
            row = about | found | {"base": counted.result() if counted else None}
            if arguments.shares:
                row["shares"] = _shares(layer, row, target, bench)
            yield row


def _about(layer: Layer, peak: int) -> dict[str, Any]:
    about = {"layer": layer.name, "text": str(layer.conv), "count": layer.count}
    return about | {"flops": layer.conv.flops, "peak": peak, "class": kind(layer)}


def _shares(layer: Layer, row: dict[str, Any], target: Target, bench: Bench) -> dict[str, dict[str, int]]:
    """Cycles of packing beside those of the whole call, of the base and of ours."""
    config, found = Config.from_json(row["tuned"]["config"]), {}
    if config.kernel in SLICED:
        found["ours"] = shares(layer.conv, config, target, bench)
    if row["base"] and row["base"].get("packing"):
        call, im2col, packing = (row["base"][name]["cycles"] for name in ("call", "im2col", "packing"))
        found["base"] = {"call": call, "packing": im2col + packing}
    return found


def kind(layer: Layer) -> str:
    """The class of layers that this one belongs to, as the tables name it."""
    conv = layer.conv
    size = "1x1" if conv.kh * conv.kw == 1 else f"{conv.kh}x{conv.kw}"
    stride = "" if conv.stride == (1, 1) else f"/{conv.stride[0]}"
    return f"{size}{stride}" + (f", {WIDE} channels and more" if min(conv.in_c, conv.out_c) >= WIDE else "")


def ours(
    layer: Layer, target: Target, bench: Bench, families: Sequence[str], count: int, budget_s: float
) -> dict[str, Any]:
    """The analysis's config and the best of ``count``; raises SystemExit when none computes the layer."""
    end = time.monotonic() + budget_s
    configs = candidates(layer.conv, target, count, families)
    if not configs:
        raise SystemExit(f"bench.conv: none of {', '.join(families)} computes {layer.conv} on {target.name}")
    rows = bench.measure(layer.conv, configs[:AT_ONCE], target)
    while len(rows) < len(configs) and time.monotonic() < end:
        rows += bench.measure(layer.conv, configs[len(rows) : len(rows) + AT_ONCE], target)
    return {"tuned": min(rows, key=lambda row: int(row["cycles"])), "analysis": rows[0], "trials": len(rows)}


def base(layer: Layer, peer: openblas.OpenBlas, folder: Path) -> dict[str, Any]:
    """im2col + OpenBLAS on the layer; raises SystemExit when its result is off."""
    data, weights = random_inputs(layer.conv, np.random.default_rng(0))
    counted, result = peer.conv(layer.conv, data, weights, folder)
    expected = reference(layer.conv, [data, weights])
    off = float(np.abs(result - expected).max() / np.abs(expected).max())
    if not off <= OFF:
        raise SystemExit(f"bench.conv: im2col + OpenBLAS is off by {off:.1e} on {layer.conv}")
    return counted


def ratio(row: dict[str, Any], of: str = "tuned") -> float:
    """The base's cycles over ours."""
    return float(row["base"]["call"]["cycles"] / row[of]["cycles"])


def share(row: dict[str, Any]) -> float:
    """Our share of the unit's peak; 0 where that is not known."""
    return float(row["flops"] / row["tuned"]["cycles"] / row["peak"]) if row["peak"] else 0.0


def line(row: dict[str, Any]) -> str:
    """One layer's figures, to be printed."""
    mega = f"tuned {row['tuned']['cycles'] / 1e6:8.3f} analysis {row['analysis']['cycles'] / 1e6:8.3f}"
    family = row["tuned"]["config"]["kernel"]
    text = f"{row['text']:40s} M cycles: {mega} {share(row):4.0%} of peak {family}"
    if row["base"] is None:
        return text
    if "im2col" not in row["base"]:
        return f"{text} | {row['base']['core']} {row['base']['call']['cycles'] / 1e6:8.3f} {ratio(row):.2f}"
    whole, unfolding = (row["base"][name]["cycles"] / 1e6 for name in ("call", "im2col"))
    misses = f"L2 misses {row['base']['call']['l2_misses']} / {row['tuned']['l2_misses']}"
    return f"{text} | {row['base']['core']} {whole:8.3f} (im2col {unfolding:.3f}) {ratio(row):.2f} | {misses}"


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """What all rows say together."""
    lines = []
    for name in sorted({row["class"] for row in rows}):
        shares = [share(row) for row in rows if row["class"] == name]
        lines.append(f"{name}: {median(shares):.0%} of the peak (median of {len(shares)} layers)")
    rows = [row for row in rows if row["base"]]
    if not rows:
        return "\n".join(lines)
    counts = [row["count"] for row in rows]
    for of in ("tuned", "analysis"):
        ratios = [ratio(row, of) for row in rows]
        won, weighted = sum(each >= 1 for each in ratios), timing.geomean(ratios, counts)
        lines.append(
            f"im2col + OpenBLAS / {of}: geometric mean {timing.geomean(ratios):.2f}, weighted by "
            f"{sum(counts)} occurrences {weighted:.2f}, least {min(ratios):.2f}, {won} of {len(rows)} won"
        )
    pointwise = [row for row in rows if row["class"].startswith("1x1") and "/" not in row["class"]]
    if pointwise:
        ratios = [ratio(row) for row in pointwise]
        won = sum(row["count"] for row in pointwise if ratio(row) >= 1)
        lines.append(
            f"1x1: {timing.geomean(ratios):.2f}, {won} of {sum(row['count'] for row in pointwise)} won"
        )
    return "\n".join(lines)
