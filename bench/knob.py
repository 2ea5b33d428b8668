"""What the values of one knob are worth on a simulated board: layers by each of them, all else the same.

python -m bench.knob --target rpi4-sim --suite mobilenet_v2 --knob requant --sample 12 --seed 1 --json FILE

A layer is measured by the analysis's config with the knob at each value that fits, and by those predicted
best with that value (``--candidates``). Weights are warm. What is told: how far each value alone stays behind
the best of all, layer by layer and summed over the occurrences, and the best config of all for every value of
the knob against the best where the knob is the same for all layers.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import journal, timing

if TYPE_CHECKING:
    from bench.simulated import Bench
    from kernels.kernel import Kernel
    from kernels.space import Config
    from kernels.target import Target
    from kernels.workload.base import Workload

SETTINGS = ("target", "suite", "knob", "families", "seed", "candidates")


@dataclass(frozen=True)
class Subject:
    """A distinct layer that occurs ``count`` times."""

    name: str
    workload: Workload
    count: int


def main() -> None:
    """Run the bench and print its table."""
    from worker.fleet.drivers.sim_models import SIM_MODELS

    parser = argparse.ArgumentParser(prog="python -m bench.knob", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=sorted(SIM_MODELS), required=True)
    parser.add_argument("--suite", required=True, help="a quantized model of bench.int8, or a CSV of layers")
    parser.add_argument(
        "--knob", required=True, help="as `tilefleet explain` lists it, or several by commas, taken together"
    )
    parser.add_argument("--families", default="", help="kernels, by commas (default: all that have the knob)")
    parser.add_argument("--sample", default="12", help="how many layers to draw, or all (default 12)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--candidates", type=int, default=1, help="configs measured a value (default 1)")
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args()
    settings = {name: getattr(arguments, name) for name in SETTINGS}
    settings["suite"] = Path(arguments.suite).stem
    try:
        count = 0 if arguments.sample == "all" else int(arguments.sample)
        layers = subjects(arguments.suite)
        report = journal.opened(arguments.json, "knob", settings)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    random.Random(arguments.seed).shuffle(layers)
    rows = report.setdefault("rows", [])
    done = {row["layer"] for row in rows}
    wanted = [layer for layer in layers[: count or None] if layer.name not in done]
    for row in _rows(wanted, arguments):
        rows.append(row)
        journal.save(arguments.json, report)
        print(line(row), flush=True)
    if not any(row["values"] for row in rows):
        parser.error(f"no kernel of these layers has a knob {arguments.knob}")
    print(summary(rows))


def subjects(suite: str) -> list[Subject]:
    """The layers of a suite by name; raises ValueError for one that is not there."""
    from bench.int8_sim import signed
    from bench.int8_suite import SUITES, layers_of
    from bench.suite import read_suite

    if suite in SUITES:
        found = [Subject(each.name, signed(each.conv), each.count) for each in layers_of(suite, 8)]
    elif suite.endswith(".csv"):
        found = [Subject(each.name, each.conv, each.count) for each in read_suite(Path(suite))]
    else:
        raise ValueError(f"--suite {suite} is none of {', '.join(SUITES)}, and no file that ends in .csv")
    return sorted(found, key=lambda each: each.name)


def _rows(layers: Sequence[Subject], arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    from bench.simulated import bench_on
    from kernels.target import CATALOGUE
    from worker.fleet.drivers.sim_models import SIM_MODELS

    if not layers:
        return
    families = [name for name in arguments.families.split(",") if name]
    target = CATALOGUE[SIM_MODELS[arguments.target].target]
    with bench_on(arguments.target) as bench:
        for layer in layers:
            yield measured(layer, arguments.knob, target, bench, arguments.candidates, families)


def measured(
    layer: Subject, knob: str, target: Target, bench: Bench, count: int, families: Sequence[str] = ()
) -> dict[str, Any]:
    """The best counters of each value of ``knob`` (none where no kernel has it), by its text."""
    values = {
        value: min(bench.measure(layer.workload, configs, target), key=lambda row: int(row["cycles"]))
        for value, configs in by_value(layer.workload, knob, target, count, families).items()
    }
    if knob == "requant" and "arm" in values:
        values["int64"] = _int64(layer.workload, values, target, bench)
    return {"layer": layer.name, "text": str(layer.workload), "count": layer.count, "values": values}


def _int64(workload: Any, values: dict[str, dict[str, Any]], target: Target, bench: Bench) -> dict[str, Any]:
    """Counters of the first way's config with the int64 multiply that seed 002 begins with.

    No space has it: ``exact`` and ``high`` give the same bits in fewer instructions.
    """
    import numpy as np

    from kernels import registry
    from kernels.reference import random_inputs, reference
    from kernels.space import Config

    first = Config.from_json(next(iter(values.values()))["config"])
    config = Config.of(first.kernel, **{**dict(first.knobs), "requant": "int64"})
    kernel, inputs = registry.kernel(first.kernel), random_inputs(workload, np.random.default_rng(0))
    constants = kernel.constants(workload, config, target, inputs)
    function = kernel.build(workload, config, target, 1, "main")
    counted = bench.run(function, [inputs[0], *constants], reference(workload, inputs), target)
    return {**counted, "config": config.to_json()}


def by_value(
    workload: Workload, knob: str, target: Target, count: int, families: Sequence[str] = ()
) -> dict[str, list[Config]]:
    """For each value of ``knob``: the recommended config with it, where that fits, and those predicted best.

    Several knobs, by commas, are one: a space may lack all but the first. Of the first of the recommended
    kernels that has the knob. At most ``count`` for a value.
    """
    from kernels import registry
    from kernels.knobs import knobs_of
    from kernels.space import Config

    recommended = registry.recommendations(workload, target)
    first, *others = knob.split(",")
    wanted = [c for c in recommended if first in dict(c.knobs) and c.kernel in (families or [c.kernel])]
    if not wanted:
        return {}
    base = wanted[0]
    kernel: Kernel[Any] = registry.kernel(base.kernel)
    # What a space has no knob for is as the family's default says.
    usual = {name: getattr(knobs_of(kernel.plan_type), name, None) for name in others}
    found: dict[str, list[Config]] = {}
    for config in kernel.space(workload, target):
        there = usual | dict(config.knobs)
        found.setdefault(" ".join(str(there[name]) for name in (first, *others)), []).append(config)
    for value, configs in found.items():
        own = {name: each for name, each in configs[0].knobs if name in (first, *others)}
        same = Config.of(base.kernel, **{**dict(base.knobs), **own})
        configs.sort(key=lambda c: (c != same, kernel.predict(workload, c, target), str(c)))
        del configs[count:]
        found[value] = configs
    return found


def line(row: dict[str, Any]) -> str:
    """One layer's figures, to be printed."""
    each = " ".join(f"{value} {found['cycles'] / 1e6:.3f}" for value, found in row["values"].items())
    return f"{row['text']:48s} M cycles: {each or 'no kernel has the knob'}"


def behind(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """For each value: its cycles over the best of all values.

    ``geomean`` of the layers, ``total`` summed over all occurrences, ``layers`` where it fits. In layers
    where it does not, the best of the others stands for it.
    """
    rows = [row for row in rows if row["values"]]
    best = [min(found["cycles"] for found in row["values"].values()) for row in rows]
    result = {}
    pairs = list(zip(rows, best, strict=True))
    for value in dict.fromkeys(value for row in rows for value in row["values"]):
        own = [row["values"][value]["cycles"] if value in row["values"] else least for row, least in pairs]
        ratios = [mine / least for mine, least in zip(own, best, strict=True)]
        total = [sum(row["count"] * c for row, c in zip(rows, of, strict=True)) for of in (own, best)]
        result[value] = {
            "geomean": timing.geomean(ratios) or 1.0,
            "total": total[0] / total[1],
            "layers": sum(value in row["values"] for row in rows),
        }
    return result


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """What all rows say together."""
    found = behind(rows)
    lines = [
        f"{value}: {each['geomean']:.3f} of the best of all values, {each['total']:.3f} over all occurrences "
        f"({each['layers']} of {len(rows)} layers)"
        for value, each in sorted(found.items(), key=lambda pair: pair[1]["total"])
    ]
    least = min(each["total"] for each in found.values())
    lines.append(f"a value for each layer against one for all: {least:.3f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
