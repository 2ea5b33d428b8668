"""Machines that nobody fitted: what the analysis picks on simulated boards with figures of their own.

    python -m bench.strangers --json FILE --boards pi4-narrow,pi5-one-load

calibrates each board, then measures a sample of configs of typical layers there, made for the board's target
in the catalogue and for the same target with the measured figures. It prints by how much the analysis's pick
is behind the best of both samples, in the geometric mean over layers: without and with these figures. A board
takes ten to twenty minutes. The file is written after every layer: called again, it goes on, and measures
only what it lacks.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.journal import opened, save

if TYPE_CHECKING:
    from kernels.space import Config
    from kernels.target import Target
    from kernels.workload.base import Workload
    from worker.calibrate.figure import Figure
    from worker.fleet.drivers.simulated import SimulatedBoard

_KB = 1024
PREDICTED, DRAWN = 14, 6
"""Configs of a target's sample: those predicted fastest, and others by chance."""
SLOW_MEMORY = {"memory_cycles": 500, "memory_stream_cycles": 60, "memory_line_cycles": 50}
BOARDS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "pi4-half-caches": ("rpi4-sim", {"l1_bytes": 16 * _KB, "l2_bytes": 512 * _KB}),
    "pi5-one-load": ("rpi5-sim", {"load": 1}),
    "pi5-narrow": ("rpi5-sim", {"width": 2}),
    "pi4-slow-memory": ("rpi4-sim", SLOW_MEMORY),
    "graviton3-half-pipes": ("graviton3-sim", {"vector": 2}),
    "pi5-slow-stores": ("rpi5-sim", {"store": 1}),
    "power10-half-caches": ("power10-sim", {"l1_bytes": 16 * _KB, "l2_bytes": 512 * _KB}),
    "pi4-one-pipe": ("rpi4-sim", {"vector": 1}),
    "pi5-no-l3": ("rpi5-sim", {"l3_bytes": 0}),
    "k1-slow-memory": ("riscv-k1-sim", SLOW_MEMORY),
    "pi4-slow-l2": ("rpi4-sim", {"l2_cycles": 40, "l2_stream_cycles": 12}),
    "pi5-one-pipe": ("rpi5-sim", {"vector": 1}),
    "pi5-small-l2": ("rpi5-sim", {"l2_bytes": 128 * _KB}),
    "graviton3-narrow": ("graviton3-sim", {"width": 4}),
    "graviton3-small-caches": ("graviton3-sim", {"l1_bytes": 32 * _KB, "l2_bytes": 256 * _KB}),
    "power10-one-load": ("power10-sim", {"load": 1}),
    "pi4-narrow": ("rpi4-sim", {"width": 2}),
    "k1-half-caches": ("riscv-k1-sim", {"l1_bytes": 16 * _KB, "l2_bytes": 256 * _KB}),
    "pi5-slow-memory": ("rpi5-sim", SLOW_MEMORY),
    "graviton3-slow-stores": ("graviton3-sim", {"store": 1}),
}
"""A simulated board, and its figures that are other ones, by a name; 20 of them."""


@dataclass(frozen=True)
class Row:
    """Times of the analysis's pick over the best one, without and with the figures of the board."""

    layer: str
    without: float
    calibrated: float


def layers() -> dict[str, Workload]:
    """Two or three layers each of SqueezeNet, MobileNet-v2 and ResNet-50."""
    from kernels.workload.base import Conv2d

    same = (1, 1, 1, 1)
    return {
        "squeezenet 1x1": Conv2d(1, 128, 27, 27, 32, 1, 1),
        "squeezenet 3x3": Conv2d(1, 48, 13, 13, 192, 3, 3, pad=same),
        "mobilenet expand": Conv2d(1, 64, 14, 14, 384, 1, 1),
        "mobilenet depthwise": Conv2d(1, 192, 28, 28, 192, 3, 3, pad=same, groups=192),
        "mobilenet project": Conv2d(1, 576, 14, 14, 96, 1, 1),
        "resnet 1x1": Conv2d(1, 256, 28, 28, 128, 1, 1),
        "resnet 3x3": Conv2d(1, 128, 14, 14, 128, 3, 3, pad=same),
    }


def sample(workload: Workload, target: Target, name: str) -> list[Config]:
    """The analysis's pick, then configs predicted to be fast, then others drawn by ``name``."""
    from bench.simulated import candidates
    from kernels import registry

    first = candidates(workload, target, PREDICTED)
    rest = [each for each in registry.search_space(workload, target) if each not in first]
    return [*first, *random.Random(name).sample(rest, min(DRAWN, len(rest)))]


def picked(workload: Workload, target: Target) -> Config:
    """What the analysis alone takes."""
    from kernels import registry

    return registry.recommendations(workload, target)[0]


def rows(board: Mapping[str, Any], targets: Mapping[str, Target]) -> Iterator[Row]:
    """Of each layer that was measured with all that ``targets`` need."""
    for layer, workload in layers().items():
        times = board["layers"].get(layer, {})
        taken = {name: times.get(name, {}).get(str(picked(workload, each))) for name, each in targets.items()}
        if any(each is None for each in taken.values()):
            continue
        best = min(value for part in times.values() for value in part.values() if value is not None)
        yield Row(layer, taken["without"] / best, taken["calibrated"] / best)


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def targets_of(model: str, figures: Sequence[Figure]) -> dict[str, Target]:
    """What is known of a board without its figures, and with them."""
    from kernels.target import CATALOGUE
    from worker.calibrate.target import with_figures
    from worker.fleet.drivers.sim_models import SIM_MODELS

    base = CATALOGUE[SIM_MODELS[model].target]
    return {"without": base, "calibrated": with_figures(base, figures, "stranger")}


def measure(name: str, report: dict[str, Any], path: Path | None) -> None:
    """Add to the report what it lacks of the board ``name``."""
    from kernels.target import CATALOGUE
    from tilefleet.home import home
    from worker.build.artifacts import ArtifactStore
    from worker.build.build import Builder
    from worker.calibrate.calibrate import calibrate
    from worker.calibrate.figure import Figure
    from worker.children.nursery import Nursery
    from worker.engine.dask_worker import PRELOAD
    from worker.fleet.drivers.simulated import SimulatedBoard

    model, own = BOARDS[name]
    made = report.setdefault("boards", {}).setdefault(name, {"layers": {}})
    with (
        tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as folder,
        Nursery(preload=PRELOAD) as nursery,
        SimulatedBoard(model, figures=own, id=f"bench-{name}", state_dir=home() / "boards") as board,
    ):
        if made.setdefault("clock", board.clock) != board.clock:
            raise SystemExit(f"bench: {name} was measured by the clock {made['clock']}; give another --json")
        builder = Builder(nursery, ArtifactStore(Path(folder) / "artifacts"))
        if "figures" not in made:
            found = calibrate(
                nursery, board, CATALOGUE[board.target], store=builder.store, lock_dir=Path(folder)
            )
            made["figures"] = [each.to_json() for each in found]
            save(path, report)
        targets = targets_of(model, [Figure.from_json(each) for each in made["figures"]])
        for layer, workload in layers().items():
            for kind, target in targets.items():
                times = made["layers"].setdefault(layer, {}).setdefault(kind, {})
                wanted = [picked(workload, target)]
                if len(times) < PREDICTED:
                    wanted = sample(workload, target, f"{name} {layer} {kind}")
                missing = [each for each in wanted if str(each) not in times]
                if missing:
                    outcomes = _timed(builder, board, workload, target, missing, Path(folder))
                    times.update(zip(map(str, missing), outcomes, strict=True))
                    save(path, report)
                    print(f"{name}, {layer}, {kind}: {len(missing)} configs", file=sys.stderr, flush=True)


def _timed(
    builder: Any,
    board: SimulatedBoard,
    workload: Workload,
    target: Target,
    configs: Sequence[Config],
    folder: Path,
) -> list[float | None]:
    """Simulated seconds of each config, weights cold; None where it could not be built or run."""
    from worker.build.build import Built
    from worker.candidate import Candidate
    from worker.measure.measure import MeasureOptions, measure
    from worker.outcome import Outcome

    made = [builder.build(Candidate(workload, config, target)) for config in configs]
    options = MeasureOptions(min_time_s=0.001, run_timeout_s=120)
    built = [each for each in made if isinstance(each, Built)]
    measured = iter(measure(builder.nursery, board, built, options, lock_dir=folder))
    return [each.cost_s if isinstance(each, Outcome) else next(measured).cost_s for each in made]


def table(report: Mapping[str, Any]) -> Iterator[str]:
    """Markdown: a row a board with the worst layer, and the mean over all."""
    from worker.calibrate.figure import Figure

    yield "| board | layers | without | calibrated | furthest behind |"
    yield "| --- | --- | --- | --- | --- |"
    every: list[Row] = []
    for name, board in report.get("boards", {}).items():
        if "figures" not in board:
            continue
        figures = [Figure.from_json(each) for each in board["figures"]]
        found = list(rows(board, targets_of(BOARDS[name][0], figures)))
        if found:
            every += found
            worst = max(found, key=lambda row: row.calibrated)
            yield _line(name, found, f"{worst.layer}, {100 * (worst.calibrated - 1):.1f} %")
    if every:
        yield _line("all", every, "")


def _line(name: str, found: Sequence[Row], last: str) -> str:
    means = (mean([row.without for row in found]), mean([row.calibrated for row in found]))
    shares = " | ".join(f"{100 * (each - 1):.1f} %" for each in means)
    return f"| {name} | {len(found)} | {shares} | {last} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """The bench; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--boards", default=",".join(BOARDS), help="by name, with commas between")
    parser.add_argument("--json", type=Path, help="file of what was measured; goes on there")
    parser.add_argument("--table", action="store_true", help="print what the file has, and measure nothing")
    given = parser.parse_args(arguments)
    names = [name for name in given.boards.split(",") if name]
    if unknown := [name for name in names if name not in BOARDS]:
        parser.error(f"there is no board {', '.join(unknown)}; there are {', '.join(BOARDS)}")
    try:
        report = opened(given.json, "strangers", {})
    except ValueError as error:
        parser.error(str(error))
    for name in [] if given.table else names:
        measure(name, report, given.json)
    for line in table(report):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
