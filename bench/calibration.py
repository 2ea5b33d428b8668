"""Simulated boards with drawn figures, calibrated: is each figure found again within 5 %?

    python -m bench.calibration --board rpi4-sim --board power10-sim --count 3 --seed 1

prints a line a figure that is outside or was not told, and ends with 1 where one is outside. A board takes a
quarter to half a minute.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kernels.target import CATALOGUE
from tilefleet.home import home
from worker.build.artifacts import ArtifactStore
from worker.calibrate.calibrate import calibrate
from worker.calibrate.figure import Figure
from worker.children.nursery import Nursery
from worker.fleet.drivers.sim_figures import figures_of, with_figures
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.simulated import SimulatedBoard

SHARE = 0.05
_KB = 1024
_UNLIMITED = {"memory_line_cycles": 1, "memory_row_cycles": 1, "memory_turn_cycles": 1, "lines_ahead": 0}
"""Beside what is drawn: calibrating finds what limits one core, which the memory of all cores would hide, and
what a line costs that the core waits for."""
_WIDEST = 8
"""What chains fill that registers hold."""


def drawn(model: str, draw: random.Random) -> dict[str, int]:
    """Figures of a board that could be."""
    line = draw.choice((64, 128))
    figures = {"line_bytes": line, "hz": draw.randrange(500, 4000) * 1_000_000}
    levels = ["l1", "l2", *(["l3"] if draw.random() < 0.5 else [])]
    least, cycles, stream = 8 * _KB, 0, 0
    for level in levels:
        ways = draw.choice((2, 3, 4, 6, 8, 12, 16))
        size = ways * line
        while size < least:
            size *= 2
        size <<= draw.randrange(3)
        cycles += draw.randrange(8, 40)
        stream += draw.randrange(1, 6)
        figures |= {f"{level}_bytes": size, f"{level}_ways": ways}
        if level != "l1":
            figures |= {f"{level}_cycles": cycles, f"{level}_stream_cycles": stream}
        least = max(64 * _KB, 2 * size)
    figures |= {"memory_cycles": cycles + draw.randrange(80, 400)}
    figures |= {"memory_stream_cycles": stream + draw.randrange(5, 30)}
    if "l3" not in levels:
        figures["l3_bytes"] = 0
    cores = {"integer": 4, "load": 3, "store": 2, "vector": 4, "in_flight": 16, "divide_cycles": 30}
    known = figures_of(model) if SIM_MODELS[model].isa != "hexagon" else ()
    figures |= {name: draw.randint(1, most) for name, most in cores.items() if name in known}
    if "integer" in known:
        # As many as the widest pipe, else nobody could tell that; fewer than all, for the same reason.
        pipes = [figures[name] for name in ("integer", "load", "vector")]
        least, most = max(2, figures["store"], *pipes), min(_WIDEST, sum(pipes) - 1)
        figures["width"] = draw.randint(least, max(least, most))
    return figures


def compared(wanted: Mapping[str, int], found: Sequence[Figure]) -> Iterator[tuple[str, bool]]:
    """Of each figure that was not found again a line, and whether it is wrong, not only untold."""
    values = {each.name: each for each in found}
    for name, value in wanted.items():
        each = values.get(name)
        if each is None or each.value is None:
            if value:
                yield f"{name}: {value}, not told: {each.how if each else 'there is no line of it'}", False
        elif abs(each.value - value) > SHARE * value:
            yield f"{name}: {value}, found {each.value:.4g}", True


def main(arguments: Sequence[str] | None = None) -> int:
    """The bench; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--board", action="append", choices=sorted(SIM_MODELS))
    parser.add_argument("--count", type=int, default=1, help="sets of figures a board")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as folder, Nursery() as nursery:
        for model in given.board or sorted(SIM_MODELS):
            for number in range(given.count):
                own = drawn(model, random.Random(f"{given.seed} {number} {model}"))
                figures = own | {name: _UNLIMITED[name] for name in figures_of(model) if name in _UNLIMITED}
                board = SimulatedBoard(
                    model, figures=figures, id=f"bench-{model}", state_dir=home() / "boards"
                )
                with board:
                    store, target = ArtifactStore(Path(folder)), CATALOGUE[board.target]
                    found = calibrate(nursery, board, target, store=store, lock_dir=Path(folder))
                whole = with_figures(model, figures)
                lines = [*compared({name: getattr(whole, name) for name in own}, found)]
                outside = sum(bad for _, bad in lines)
                wrong += outside
                untold = len(lines) - outside
                print(f"{model}, set {number}: {len(own)} figures, {outside} outside, {untold} untold")
                for line, bad in lines:
                    print(f"  {'OUTSIDE ' if bad else ''}{line}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
