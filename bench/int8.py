"""Quantized layers of a model tuned through the service, then timed in turns with the libraries.

python -m bench.int8 --target host --suite resnet50 --sample 12 --seed 1 --json FILE

FILE is written after every layer; called again with the same settings the bench goes on where it stopped.
Data and weights are random with extremes. Our result is compared with the integer reference to the last bit,
the peers' with it as well: how many results differ, and by how much, is in FILE. ``unfused`` is our own tuned
config with the sums stored as int32 and scaled afterwards. ``--target rpi4-sim`` and other Arms are
bench/int8_sim.py, other boards are bench/int8_plain.py.
"""

from __future__ import annotations

import argparse
import random
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import int8_plain, int8_sim, journal, timing
from bench.int8_suite import SUITES
from tuner.runtimes.turns import take_turns

if TYPE_CHECKING:
    from bench.int8_suite import QLayer
    from kernels.target import Target
    from tilefleet.client import Client

SETTINGS = ("target", "suite", "weight_bits", "max_trials", "budget_s", "seed")
"""What two runs must have in common to be one."""


def main() -> None:
    """Run the bench and print its table."""
    where = argparse.ArgumentParser(prog="python -m bench.int8", add_help=False)
    where.add_argument("--target", choices=["host", *int8_sim.BOARDS, *int8_plain.BOARDS], default="host")
    chosen, others = where.parse_known_args()
    if chosen.target in int8_sim.BOARDS:
        int8_sim.main(["--target", chosen.target, *others])
        return
    if chosen.target != "host":
        int8_plain.main(["--target", chosen.target, *others])
        return
    parser = argparse.ArgumentParser(
        prog="python -m bench.int8", description=__doc__.splitlines()[0], parents=[where]
    )
    parser.add_argument("--suite", choices=SUITES, required=True)
    parser.add_argument("--sample", type=int, default=12, help="how many layers to draw (default 12)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--weight-bits", type=int, choices=[7, 8], default=7, help="7: onnxruntime's reduce_range (default)"
    )
    parser.add_argument("--max-trials", type=int, default=40, help="of tuning a layer (default 40)")
    parser.add_argument("--budget-s", type=float, default=60, help="seconds of tuning a layer (default 60)")
    parser.add_argument("--rounds", type=int, default=9, help="turns that each library gets (default 9)")
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args()

    from bench.int8_suite import layers_of

    settings = {name: getattr(arguments, name) for name in SETTINGS}
    try:
        timing.limit_threads(1)
        report = journal.opened(arguments.json, "int8", settings)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    layers = sorted(layers_of(arguments.suite, arguments.weight_bits), key=lambda layer: layer.name)
    random.Random(arguments.seed).shuffle(layers)
    run(layers[: arguments.sample], report, arguments)


def run(layers: list[QLayer], report: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Tune what is not tuned yet, with all the machine; then pin this process and time."""
    from bench.service import service
    from kernels.target import from_json

    tuned, rows = report.setdefault("tuned", {}), report.setdefault("rows", [])
    waiting = [layer for layer in layers if layer.name not in tuned]
    if waiting:
        with service() as client:
            report["target"] = client.target("host")
            for layer in waiting:
                tuned[layer.name] = _tune(client, layer, arguments)
                journal.save(arguments.json, report)
                print(f"tuned {layer.conv!s:48s} {tuned[layer.name].get('trials', 0):4d} trials", flush=True)
    timing.pin(1)
    target = from_json(report["target"])
    timed = {row["layer"] for row in rows}
    for layer in layers:
        if layer.name in timed or "config" not in tuned[layer.name]:
            continue
        rows.append(_compare(layer, tuned[layer.name], target, arguments))
        journal.save(arguments.json, report)
        print(_line(rows[-1]), flush=True)
    report["summary"] = _summarise(rows)
    report["untuned"] = {name: found["why"] for name, found in tuned.items() if "why" in found}
    journal.save(arguments.json, report)
    for name, figures in report["summary"].items():
        print(f"{name}: " + ", ".join(f"{peer} {ratio:.2f}" for peer, ratio in figures.items()))
    for name, why in report["untuned"].items():
        print(f"not tuned: {name}: {why}")


def _tune(client: Client, layer: QLayer, arguments: argparse.Namespace) -> dict[str, Any]:
    """The best exact config and the trials that found it, or ``{"why": ...}`` when no kernel applies."""
    from bench.service import run_job
    from kernels.numerics import Numerics
    from kernels.registry import why_not_tunable
    from kernels.target import from_json
    from kernels.workload.base import to_json

    why = why_not_tunable(layer.conv, from_json(client.target("host")))
    if why is not None:
        return {"why": why}
    job = run_job(
        client,
        workload=to_json(layer.conv),
        threads=1,
        trials=arguments.max_trials,
        seconds=arguments.budget_s,
        seed=arguments.seed,
        numerics=Numerics.EXACT,
    )
    best = client.best(layer.conv.key, "host", threads=1, numerics=Numerics.EXACT)
    return {"config": best.config, "trials": job.trials, "failed": job.failed}


def _compare(
    layer: QLayer, tuned: dict[str, Any], target: Target, arguments: argparse.Namespace
) -> dict[str, Any]:
    """The figures of one layer, by processor time; raises SystemExit when our result is not exact."""
    import numpy as np

    from bench import ours, unfused
    from bench.qpeers import qconv_peers
    from kernels import registry
    from kernels.numerics import Numerics
    from kernels.reference import random_inputs, reference
    from kernels.space import Config

    conv = layer.conv
    inputs = random_inputs(conv, np.random.default_rng(arguments.seed))
    expected = reference(conv, inputs)
    configs = {
        "tuned": Config.from_json(tuned["config"]),
        "analysis": registry.recommendations(conv, target, Numerics.EXACT)[0],
    }
    runs = {kind: ours.quantized(conv, config, target, inputs, 1) for kind, config in configs.items()}
    if conv.out_c % (2 * target.lanes("int32")) == 0:
        runs["unfused"] = unfused.unfused(conv, configs["tuned"], target, inputs)
    peers = {name: make(conv, inputs, 1) for name, make in qconv_peers(conv).items()}
    off: dict[str, dict[str, float]] = {}
    for kind, done in (runs | peers).items():
        done.run()
        difference = np.abs(done.result().astype(np.int64) - expected)
        off[kind] = {"share": float(np.mean(difference > 0)), "largest": int(difference.max())}
        if kind in runs and off[kind]["largest"]:
            raise SystemExit(f"bench.int8: {kind} is not exact on {layer.name} ({conv})")
    turns = take_turns({kind: done.run for kind, done in (runs | peers).items()}, arguments.rounds)
    seconds = {kind: each.fair(1) for kind, each in turns.items()}
    others = [name for name in seconds if name not in configs]
    ratios = {name: timing.ratio(seconds[name], seconds["tuned"]) for name in others}
    return {
        "layer": layer.name,
        "text": str(conv),
        "count": layer.count,
        "class": _class(layer),
        "gops": {kind: conv.flops / statistics.median(times) / 1e9 for kind, times in seconds.items()},
        "ratios": {peer: {"median": r[0], "p10": r[1], "p90": r[2]} for peer, r in ratios.items()},
        "off": off,
        "trials": tuned["trials"],
        "tuned": configs["tuned"].to_json(),
        "analysis": configs["analysis"].to_json(),
    }


def _class(layer: QLayer) -> str:
    conv = layer.conv
    if conv.groups > 1:
        return "grouped"
    if (conv.kh, conv.kw) == (1, 1):
        return "1x1"
    return "3x3 stride 1" if (conv.kh, conv.kw, *conv.stride) == (3, 3, 1, 1) else "other"


def _summarise(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Geometric means of peer time / ours, of all layers and of each class."""
    classes = {"all": rows} | {
        name: [row for row in rows if row["class"] == name] for name in sorted({row["class"] for row in rows})
    }
    return {
        f"{name} ({len(some)})": {
            peer: timing.geomean([row["ratios"][peer]["median"] for row in some]) or 0.0
            for peer in some[0]["ratios"]
            if all(peer in row["ratios"] for row in some)
        }
        for name, some in classes.items()
        if some
    }


def _line(row: dict[str, Any]) -> str:
    peers = " ".join(
        f"{peer} {row['gops'][peer]:.0f} ({ratio['median']:.2f}, {row['off'][peer]['share']:.0%} off)"
        for peer, ratio in row["ratios"].items()
    )
    gops = row["gops"]
    return f"{row['text']:48s} tuned {gops['tuned']:4.0f} analysis {gops['analysis']:4.0f} | {peers}"


if __name__ == "__main__":
    main()
