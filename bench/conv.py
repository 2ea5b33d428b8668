"""Convolution layers tuned through the service, then timed in turns with the libraries.

python -m bench.conv --suite FILE.csv --sample 24 --seed 1 --threads 1 --max-trials 60 --json FILE

FILE is written after every layer. Called again with the same settings, the bench goes on where it was
stopped, and a larger sample keeps the layers that are there. ``python -m bench.report FILE`` makes a table
and a plot of it. With ``--target`` it is bench/conv_sim.py: families of ours beside im2col + OpenBLAS,
nothing tuned, on a simulated board (``power10-sim``) or on this machine (``host``).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import journal, timing
from kernels.numerics import Numerics

if TYPE_CHECKING:
    from bench.suite import Layer
    from tilefleet.client import Client

SETTINGS = ("suite", "threads", "numerics", "max_trials", "budget_s", "strategy", "seed")
"""What two runs must have in common to be one."""


def main() -> None:
    """Run the bench and print its table."""
    if any(word.partition("=")[0] == "--target" for word in sys.argv):
        timing.limit_threads(1)  # before NumPy is imported, for --target host
        from bench import conv_sim

        conv_sim.main(sys.argv[1:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench.conv", description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Path, required=True, help="CSV of layers, columns as bench/suite.py")
    parser.add_argument(
        "--sample", type=_count, default=24, help="how many layers to draw, or all (default 24)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-trials", type=int, default=60, help="of tuning a layer (default 60)")
    parser.add_argument("--budget-s", type=float, default=120, help="seconds of tuning a layer (default 120)")
    parser.add_argument("--numerics", type=Numerics, choices=list(Numerics), default=Numerics.RELAXED)
    parser.add_argument("--strategy", default="model")
    parser.add_argument("--rounds", type=int, default=9, help="turns that each library gets (default 9)")
    parser.add_argument("--time-again", action="store_true", help="keep what was tuned, time all of it anew")
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args()

    from bench.suite import read_suite, sample

    settings = {name: getattr(arguments, name) for name in SETTINGS} | {"suite": arguments.suite.stem}
    try:
        timing.limit_threads(arguments.threads)
        layers = sample(read_suite(arguments.suite), arguments.sample, arguments.seed)
        report = journal.opened(arguments.json, "conv", settings)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if arguments.time_again:
        report.pop("rows", None)
    run(layers, report, arguments)


def run(layers: list[Layer], report: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Tune every layer first, with all the machine; then pin this process and time."""
    from bench.conv_compare import compare
    from bench.conv_summary import line, summarise, summary
    from kernels.target import from_json

    tuned = report.setdefault("tuned", {})
    waiting = [layer for layer in layers if layer.name not in tuned]
    if waiting:
        _tune_all(waiting, report, arguments)
    timing.pin(arguments.threads)
    target = from_json(report["target"])
    rows = report.setdefault("rows", [])
    timed = {row["layer"] for row in rows}
    for layer in layers:
        if layer.name in timed:
            continue
        rows.append(compare(layer, tuned[layer.name], target, arguments))
        report["summary"] = summarise(rows, tuned, report["peak_gflops"])
        journal.save(arguments.json, report)
        print(f"{len(rows):3d}/{len(layers)} {line(rows[-1])}", flush=True)
    print(summary(report["summary"]))


def _tune_all(layers: list[Layer], report: dict[str, Any], arguments: argparse.Namespace) -> None:
    from bench.service import service

    start = time.monotonic()
    with service() as client:
        report["target"] = client.target("host")
        for number, layer in enumerate(layers, start=1):
            found, peak = _tune(client, layer, arguments)
            report["tuned"][layer.name] = found
            report["peak_gflops"] = max(peak, report.get("peak_gflops", 0.0))
            journal.save(arguments.json, report)
            left = (time.monotonic() - start) / number * (len(layers) - number) / 60
            print(
                f"tuned {number:3d}/{len(layers)} {layer.name:24s} {layer.conv!s:40s} {found['trials']:4d}"
                f" trials in {found['tuning_s']:4.0f} s, about {left:.0f} min left",
                flush=True,
            )


def _tune(client: Client, layer: Layer, arguments: argparse.Namespace) -> tuple[dict[str, Any], float]:
    """Tune one layer by a job: its best config and what that took, and the core's peak GFLOP/s."""
    from bench.conv_summary import trials_to_near
    from bench.service import run_job
    from kernels.workload.base import to_json

    job = run_job(
        client,
        workload=to_json(layer.conv),
        threads=arguments.threads,
        strategy=arguments.strategy,
        trials=arguments.max_trials,
        seconds=arguments.budget_s,
        seed=arguments.seed,
        numerics=arguments.numerics,
    )
    best = client.best(layer.conv.key, "host", threads=arguments.threads, numerics=arguments.numerics)
    (task,) = client.tasks(job.id)
    tuned = {
        "config": best.config,
        "trials": job.trials,
        "failed": job.failed,
        "tuning_s": job.elapsed_s,
        "trials_to_near": trials_to_near(task.curve),
    }
    return tuned, job.peak_gflops or 0.0


def _count(text: str) -> int:
    """A number of layers; 0 stands for all."""
    return 0 if text == "all" else int(text)


if __name__ == "__main__":
    main()
