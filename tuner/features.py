"""What the learned cost model sees of a config: knobs, predicted time, and how the knobs combine."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import numpy.typing as npt

from kernels import csa
from kernels.space import Config, Space, Value
from kernels.target import Target
from kernels.workload import Conv2d
from tuner.strategies.base import Problem

Vector = npt.NDArray[np.float64]
Columns = dict[str, float]


class Featurizer:
    """Configs of one problem to rows of one matrix.

    Columns that mean nothing for a config's kernel are NaN, which trees take as "missing". The workload and
    the target are the same in every row, so they enter only through what they make of the knobs.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._rows: dict[Config, Columns] = {}
        self._names: dict[str, int] = {}

    def matrix(self, configs: list[Config]) -> Vector:
        """One row a config, float64; columns keep their places from call to call, new ones come last."""
        rows = [self._row(config) for config in configs]
        for row in rows:
            for name in row:
                self._names.setdefault(name, len(self._names))
        result = np.full((len(rows), len(self._names)), np.nan)
        for at, row in enumerate(rows):
            result[at, [self._names[name] for name in row]] = list(row.values())
        return result

    def _row(self, config: Config) -> Columns:
        if config not in self._rows:
            self._rows[config] = _columns(self._problem, config)
        return self._rows[config]


def _columns(problem: Problem, config: Config) -> Columns:
    space = problem.space.of(config.kernel)
    columns: Columns = {
        "kernel": [each.kernel for each in problem.space.spaces].index(config.kernel) if space else -1,
        "predicted": math.log(max(problem.predict(config), 1e-12)),
    }
    sizes: Columns = {}
    for knob, value in config.knobs:
        columns[f"{config.kernel}.{knob}"] = _place(space, knob, value)
        for part, number in enumerate(_numbers(value)):
            sizes[f"{config.kernel}.{knob}.{part}"] = math.log2(number + 1)
    columns |= sizes
    # Footprints and reuse are products and ratios of knobs: sums and differences of their logarithms,
    # which a tree cannot make for itself.
    for (one, first), (other, second) in itertools.combinations(sizes.items(), 2):
        columns[f"{one}*{other}"] = first + second
        columns[f"{one}/{other}"] = first - second
    if config.kernel == "sconv" and isinstance(problem.workload, Conv2d):
        columns |= _slicing(problem.workload, config, problem.target)
    return columns


def _place(space: Space | None, knob: str, value: Value) -> float:
    """Where the value stands among the knob's values: neighbours differ little."""
    values = list(space.knobs.get(knob, ())) if space else []
    return values.index(value) if value in values else -1


def _numbers(value: Value) -> list[float]:
    """The sizes in a value: a number itself, or those in a word like ``6x2``."""
    return [float(value)] if isinstance(value, int) else [float(n) for n in re.findall(r"\d+", value)]


def _slicing(conv: Conv2d, config: Config, target: Target) -> Columns:
    """Footprints over cache sizes, traffic at each level, and whether the analysis accepts the tiles."""
    filters, vectors = (int(part) for part in str(config["block"]).split("x"))
    slicing = csa.Slicing(
        conv,
        target,
        filters,
        vectors * target.lanes(),
        str(config["order"]),
        config.int("channels"),
        config.int("k2"),
        config.int("k3"),
    )
    footprint = slicing.in_tile + slicing.fs_tile + slicing.out_tile
    return {
        "csa.l1": math.log2(footprint / target.l1_bytes),
        "csa.dram_lines": math.log2(slicing.dram_lines + 1),
        "csa.l3_lines": math.log2(slicing.l3_lines + 1),
        "csa.l2_lines": math.log2(slicing.l2_lines + 1),
        "csa.fits": slicing.fits_l1 + 2 * slicing.fits_l2 + 4 * slicing.fits_l3,
    }
