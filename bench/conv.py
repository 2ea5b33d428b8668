"""Convolution layers tuned through the service, then timed in turns with the libraries.

python -m bench.conv --suite FILE.csv --sample 24 --seed 1 --threads 1 --budget-s 30 --json FILE
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import timing

if TYPE_CHECKING:
    from kernels.target import Target
    from kernels.workload import Conv2d
    from tilefleet.client import Client

TOLERANCE = 1e-4
"""Largest accepted difference between any two of the results compared, relative to the largest value."""


def main() -> None:
    """Run the bench and print its table."""
    parser = argparse.ArgumentParser(prog="python -m bench.conv", description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Path, required=True, help="CSV of layers, columns as bench/suite.py")
    parser.add_argument("--sample", type=int, default=24, help="how many layers to draw (default 24)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=30, help="seconds of tuning a layer (default 30)")
    parser.add_argument("--strategy", default="model")
    parser.add_argument("--rounds", type=int, default=9, help="turns that each library gets (default 9)")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()

    from bench.suite import read_suite, sample

    try:
        timing.limit_threads(arguments.threads)
        layers = sample(read_suite(arguments.suite), arguments.sample, arguments.seed)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    report = run(layers, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def run(layers: dict[str, Conv2d], arguments: argparse.Namespace) -> dict[str, Any]:
    """Tune every layer first, with all the machine; then pin this process and time."""
    from bench.service import service
    from kernels.target import from_json

    picks: dict[str, tuple[dict[str, Any], int]] = {}
    with service() as client:
        target = from_json(client.target("host"))
        peak = 0.0
        for name, layer in layers.items():
            config, trials, peak = tune(client, layer, arguments)
            picks[name] = (config, trials)
            print(f"tuned {name:24s} {layer!s:44s} {trials:4d} trials", flush=True)

    timing.pin(arguments.threads)
    rows = []
    for name, layer in layers.items():
        rows.append(compare(name, layer, *picks[name], target, arguments))
        print(_line(rows[-1]), flush=True)
    report = summarise(rows, peak)
    print(_summary(report))
    return report


def tune(client: Client, layer: Conv2d, arguments: argparse.Namespace) -> tuple[dict[str, Any], int, float]:
    """Tune one layer by a job; its best config, how many trials it took, and the core's peak GFLOP/s."""
    from bench.service import run_job
    from kernels.workload import to_json

    job = run_job(
        client,
        workload=to_json(layer),
        threads=arguments.threads,
        strategy=arguments.strategy,
        seconds=arguments.budget_s,
        seed=arguments.seed,
    )
    best = client.best(layer.key, "host", threads=arguments.threads)
    return best.config, job.trials, job.peak_gflops or 0.0


def compare(
    name: str,
    layer: Conv2d,
    config: dict[str, Any],
    trials: int,
    target: Target,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """One row: tuned kernel, analysis's kernel and every peer in turns on the same data."""
    import numpy as np

    from bench import ours
    from bench.peers import conv_peers
    from kernels import registry
    from kernels.reference import random_inputs
    from kernels.space import Config

    data, weights = random_inputs(layer, np.random.default_rng(arguments.seed))
    configs = {
        "tuned": Config.from_json(config),
        "analysis": registry.recommendations(layer, target)[0],
    }
    runs = {
        kind: ours.kernel(layer, chosen, target, data, weights, arguments.threads)
        for kind, chosen in configs.items()
    }
    peers = {peer: make(layer, data, weights, arguments.threads) for peer, make in conv_peers().items()}
    runs |= peers
    for run_once in runs.values():
        run_once.run()
    expected = peers["im2col_openblas"].result()
    for kind, done in runs.items():
        difference = np.abs(done.result() - expected).max() / np.abs(expected).max()
        if not difference <= TOLERANCE:
            raise SystemExit(f"bench.conv: {kind} is off by {difference:.1e} on {name} ({layer})")
    seconds = timing.in_turns({kind: done.run for kind, done in runs.items()}, arguments.rounds)
    gflops = {kind: layer.flops / float(np.median(times)) / 1e9 for kind, times in seconds.items()}
    ratios = {peer: timing.ratio(seconds[peer], seconds["tuned"]) for peer in peers}
    best = max(peers, key=lambda peer: gflops[peer])
    return {
        "layer": name,
        "text": str(layer),
        "tuned_gflops": gflops["tuned"],
        "analysis_gflops": gflops["analysis"],
        "peers": {peer: gflops[peer] for peer in peers},
        "ratios": {peer: {"median": r[0], "p10": r[1], "p90": r[2]} for peer, r in ratios.items()},
        "best_peer": best,
        "ratio_best_peer": ratios[best][0],
        "trials": trials,
        "tuned": configs["tuned"].to_json(),
        "analysis": configs["analysis"].to_json(),
    }


def summarise(rows: list[dict[str, Any]], peak: float) -> dict[str, Any]:
    """The report: rows, geometric means of peer time over ours, and how many layers we win."""
    peers = rows[0]["ratios"] if rows else {}
    means: dict[str, float | None] = dict.fromkeys(("onnxruntime", "im2col_openblas", "torch", "best_peer"))
    for peer in peers:
        means[peer] = timing.geomean(row["ratios"][peer]["median"] for row in rows)
    means["best_peer"] = timing.geomean(row["ratio_best_peer"] for row in rows)
    return {
        "rows": rows,
        "geomean": means,
        "analysis_over_tuned": timing.geomean(row["analysis_gflops"] / row["tuned_gflops"] for row in rows),
        "wins": sum(row["ratio_best_peer"] >= 1 for row in rows),
        "n": len(rows),
        "peak_gflops": peak,
    }


def _line(row: dict[str, Any]) -> str:
    best = row["ratios"][row["best_peer"]]
    peers = " ".join(f"{peer} {gflops:.0f}" for peer, gflops in row["peers"].items())
    return (
        f"{row['text']:44s} tuned {row['tuned_gflops']:4.0f} analysis {row['analysis_gflops']:4.0f} | {peers}"
        f" | best peer/ours {best['median']:.2f} ({best['p10']:.2f}-{best['p90']:.2f})"
    )


def _summary(report: dict[str, Any]) -> str:
    means = ", ".join(f"{peer} {mean:.3f}" for peer, mean in report["geomean"].items() if mean)
    return (
        f"geometric mean of peer time / ours over {report['n']} layers: {means}; "
        f"analysis at {report['analysis_over_tuned'] or 0:.2f} of tuned; "
        f"{report['wins']} of {report['n']} won; peak {report['peak_gflops']:.0f} GFLOP/s a core"
    )


if __name__ == "__main__":
    main()
