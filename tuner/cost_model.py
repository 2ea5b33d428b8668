"""A learned model that ranks configs of one problem by what trials of it have cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernels.space import Config
from tuner.features import Featurizer, Vector
from tuner.strategies.base import Problem

FAILED = 2.0
"""A failed config counts as this much slower than the slowest that ran."""
ROUNDS = 60
PARAMETERS = {
    "objective": "regression",
    "learning_rate": 0.15,
    "num_leaves": 15,
    "min_data_in_leaf": 3,
    "min_data_in_bin": 1,
    "lambda_l2": 0.5,
    "feature_fraction": 0.7,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "feature_pre_filter": False,
    "verbosity": -1,
}


class CostModel:
    """Gradient-boosted trees on the logarithm of the cost, fitted anew each time: samples are few."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self._features = Featurizer(problem)
        self._seed = seed
        self._booster: object | None = None
        self._width = 0

    def fit(self, samples: Sequence[tuple[Config, float | None]]) -> None:
        """Learn from costs in seconds (None: failed). At least one must have run."""
        import lightgbm  # takes a second to load: only jobs that learn pay for it

        worst = max(cost for _, cost in samples if cost is not None)
        costs = [math.log(worst * FAILED if cost is None else cost) for _, cost in samples]
        matrix = self._features.matrix([config for config, _ in samples])
        self._width = matrix.shape[1]
        self._booster = lightgbm.train(
            {**PARAMETERS, "seed": self._seed},
            lightgbm.Dataset(matrix, label=np.array(costs), free_raw_data=False),
            num_boost_round=ROUNDS,
        )

    def predict(self, configs: Sequence[Config]) -> Vector:
        """The logarithm of the expected cost of each config; only its order means something."""
        if self._booster is None:
            raise ValueError("the cost model must be fitted before it predicts")
        matrix = self._features.matrix(list(configs))[:, : self._width]
        result: Vector = np.asarray(self._booster.predict(matrix, num_threads=1))  # type: ignore[attr-defined]
        return result
