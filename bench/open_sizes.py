"""What leaving a size open costs: a model built once for a range of lengths, beside builds for just one.

``python -m bench.open_sizes MODEL --shape "ids=1,1..512" --lengths 7,37,128`` prints for each length the
milliseconds of both, timed in turns, and their ratio.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tvm
from tvm import relax

from compiler.intake.shapes import Shapes, at_length
from tilefleet.commands.shape_options import read_sets
from tuner.backend.shape_sets import build_sets
from worker.measure.host import host_target

TURN_S = 0.02
"""How long each of both runs before it is the other's turn."""


@dataclass(frozen=True)
class Row:
    """One length: seconds of the module for all of them, and of one for this length."""

    length: int
    open_s: float
    fixed_s: float

    @property
    def ratio(self) -> float:
        """The speed of the open one relative to the fixed one."""
        return self.fixed_s / self.open_s

    def __str__(self) -> str:
        return f"{self.length:6} {1e3 * self.open_s:9.3f} {1e3 * self.fixed_s:9.3f} {self.ratio:6.3f}"


def compare(path: Path, shapes: Shapes, lengths: Sequence[int], seconds: float) -> list[Row]:
    """Both in turns at each of the ``lengths``, for so many ``seconds`` each."""
    target = host_target()
    executable, (variant,) = build_sets(path, target, 1, shapes)
    whole = relax.VirtualMachine(executable, tvm.cpu())["main"]
    rows = []
    for length in lengths:
        executable, _ = build_sets(path, target, 1, at_length(shapes, length))
        fixed = relax.VirtualMachine(executable, tvm.cpu())["main"]
        shaped = at_length(
            {name: shape for name, (shape, _) in variant.inputs.items()} | dict(shapes), length
        )
        feeds = _feeds(shaped, {name: dtype for name, (_, dtype) in variant.inputs.items()})
        rows.append(Row(length, *_in_turns([whole, fixed], feeds, seconds)))
    return rows


def _feeds(shapes: Mapping[str, Sequence[int]], dtypes: Mapping[str, str]) -> list[Any]:
    """Ones: tokens that there are, none of which is masked."""
    return [tvm.runtime.tensor(np.ones(shape, dtypes[name])) for name, shape in shapes.items()]


def _in_turns(functions: Sequence[Any], feeds: Sequence[Any], seconds: float) -> list[float]:
    """The median seconds of a run of each."""
    times: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end:
        for function, taken in zip(functions, times, strict=True):
            function(*feeds)
            turn = time.perf_counter() + TURN_S
            now = time.perf_counter()
            while now < turn:
                function(*feeds)
                before, now = now, time.perf_counter()
                taken.append(now - before)
    return [median(each) for each in times]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line a length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--shape", action="append", required=True)
    parser.add_argument("--lengths", default="7,37,100,129,300,511")
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args(arguments)
    (shapes,) = read_sets(given.shape)
    print(f"{'length':>6} {'open ms':>9} {'fixed ms':>9} {'ratio':>6}")
    for row in compare(given.model, shapes, [int(each) for each in given.lengths.split(",")], given.seconds):
        print(row, flush=True)


if __name__ == "__main__":
    main()
