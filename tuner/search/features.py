"""What the surrogate sees of the points of one space: kernel, layouts, knobs and predicted time.

Footprints over cache sizes, reuse ratios and traffic (products and ratios of knobs) were measured too, on
1,701 timed configs of three layers: they changed neither the rank correlation nor the best of the top eight.
The predicted seconds carry what the kernels know of the caches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from kernels.space import Config, Value
from tuner.search.problem import Problem

Matrix = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
LEAST_S = 1e-12


class Features:
    """The points of a space as arrays, a row a point.

    ``kernels`` and ``layouts`` number those there are; ``knobs`` has a column for each number in a knob's
    value and for each word, all of unit spread, 0 where a kernel lacks it; ``predicted`` is the logarithm of
    the predicted seconds, of mean 0 and unit spread; ``log_predicted`` is that in log seconds.
    """

    def __init__(self, problem: Problem, points: Sequence[Config]) -> None:
        self.kernels = _numbered([config.kernel for config in points])
        self.layouts = _numbered([config.layouts for config in points])
        self.log_predicted = np.log([max(problem.predict(config), LEAST_S) for config in points])
        self.predicted = _even(self.log_predicted[:, None] - self.log_predicted.mean())[:, 0]
        self.knobs = _even(_columns(points))

    @property
    def depth(self) -> float:
        """How many columns of ``knobs`` a point has, on average; at least 1."""
        return max(1.0, float(np.count_nonzero(self.knobs, axis=1).mean()))


def _columns(points: Sequence[Config]) -> Matrix:
    rows = [{name: number for pair in config.knobs for name, number in _numbers(*pair)} for config in points]
    places: dict[str, int] = {}
    for row in rows:
        for name in row:
            places.setdefault(name, len(places))
    matrix = np.zeros((len(rows), len(places)))
    for at, row in enumerate(rows):
        matrix[at, [places[name] for name in row]] = list(row.values())
    return matrix


def _numbers(knob: str, value: Value) -> list[tuple[str, float]]:
    """Columns of one knob: the logarithms of the sizes in its value (two in ``6x2``, and their product), or
    one that says which word it is."""
    sizes = [float(value)] if isinstance(value, int) else [float(n) for n in re.findall(r"\d+", value)]
    if not sizes:
        return [(f"{knob}={value}", 1.0)]
    logs = [math.copysign(math.log2(1 + abs(size)), size) for size in sizes]
    product = [(f"{knob}.product", sum(logs))] if len(logs) > 1 else []
    return [*((f"{knob}.{at}", log) for at, log in enumerate(logs)), *product]


def _numbered(values: Sequence[Hashable]) -> Places:
    known = {value: at for at, value in enumerate(dict.fromkeys(values))}
    return np.array([known[value] for value in values], dtype=np.int64)


def _even(columns: Matrix) -> Matrix:
    """Columns of unit spread; one without any becomes 0."""
    spread = columns.std(axis=0)
    return np.asarray(np.divide(columns, spread, out=np.zeros_like(columns), where=spread > 1e-9))
