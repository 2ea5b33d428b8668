"""What the learned cost model sees of a config: its kernel, its knobs and its predicted time.

Footprints over cache sizes, reuse ratios and traffic (products and ratios of knobs) were measured too, on
1,701 timed configs of three layers: they changed neither the rank correlation nor the best of the top eight,
and cost half of the time. The predicted seconds carry what the kernels know of the caches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernels.layout import NCHW, NHWC, block_of
from kernels.space import Config, Space, Value
from tuner.search.problem import Problem

Matrix = npt.NDArray[np.float64]
Columns = dict[str, float]


class Featurizer:
    """Configs of one problem to rows of one matrix.

    Columns that mean nothing for a config's kernel are NaN, which trees take as "missing". The workload and
    the target are the same in every row, so they enter only through the predicted time.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._kernels = [space.family for space in problem.space.spaces]
        self._rows: dict[Config, Columns] = {}
        self._places: dict[str, int] = {}

    def matrix(self, configs: Sequence[Config]) -> Matrix:
        """One row a config, float64; columns keep their places from call to call, new ones come last."""
        rows = [self._row(config) for config in configs]
        result = np.full((len(rows), len(self._places)), np.nan)
        for at, row in enumerate(rows):
            result[at, [self._places[name] for name in row]] = list(row.values())
        return result

    def _row(self, config: Config) -> Columns:
        if config not in self._rows:
            row = self._columns(config)
            for name in row:
                self._places.setdefault(name, len(self._places))
            self._rows[config] = row
        return self._rows[config]

    def _columns(self, config: Config) -> Columns:
        space = self._problem.space.of(config.family)
        columns: Columns = {
            "kernel": self._kernels.index(space.family) if space else -1,
            "predicted": math.log(max(self._problem.predict(config), 1e-12)),
        }
        layouts = config.layouts
        columns["data"], columns["out"] = _kind(layouts.data), _kind(layouts.out)
        for knob, value in config.knobs:
            name = f"{config.kernel}.{knob}"
            columns[name] = _place(space, knob, value)
            for part, number in enumerate(_numbers(value)):
                columns[f"{name}.{part}"] = number
        return columns


def _kind(layout: str) -> int:
    """Columns of their own for the layouts let what is learned in one help in another."""
    return 2 if block_of(layout) else (NCHW, NHWC).index(layout)


def _place(space: Space | None, knob: str, value: Value) -> float:
    """Where the value stands among the knob's values: neighbours differ little."""
    values = list(space.knobs.get(knob, ())) if space else []
    return values.index(value) if value in values else -1


def _numbers(value: Value) -> list[float]:
    """The sizes in a value: a number itself, or those in a word like ``6x2``."""
    return [float(value)] if isinstance(value, int) else [float(n) for n in re.findall(r"\d+", value)]
