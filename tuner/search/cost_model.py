"""A learned model that ranks configs of one problem by what trials of it have cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels.space import Config
from tuner.search.features import Featurizer, Matrix
from tuner.search.problem import Problem

FAILED = 2.0
"""A failed config counts as this much slower than the slowest that ran."""
ROUNDS = 60
# Samples are few, so leaves may hold a single one.
PARAMETERS = {
    "objective": "regression",
    "learning_rate": 0.15,
    "num_leaves": 15,
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 1e-3,
    "min_data_in_bin": 1,
    "lambda_l2": 0.5,
    "feature_fraction": 0.7,
    "feature_pre_filter": False,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


class CostModel:
    """Gradient-boosted trees on the logarithm of the cost, fitted anew each time."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self._features = Featurizer(problem)
        self._seed = seed
        self._booster: Any = None
        self._width = 0

    def fit(self, samples: Sequence[tuple[Config, float | None]]) -> None:
        """Learn from costs in seconds (None: failed); raises ValueError when none of them ran."""
        import lightgbm  # loads for a second: only jobs that learn should pay for it

        ran = [cost for _, cost in samples if cost is not None]
        if not ran:
            raise ValueError("the cost model cannot learn: none of the samples ran")
        failed = max(ran) * FAILED
        costs = np.log([failed if cost is None else cost for _, cost in samples])
        matrix = self._features.matrix([config for config, _ in samples])
        self._width = matrix.shape[1]
        data = lightgbm.Dataset(matrix, label=costs)
        self._booster = lightgbm.train({**PARAMETERS, "seed": self._seed}, data, num_boost_round=ROUNDS)

    def predict(self, configs: Sequence[Config]) -> Matrix:
        """The logarithm of the expected seconds of each config; only its order means something."""
        if self._booster is None:
            raise ValueError("the cost model must be fitted before it predicts")
        # Kernels without a sample have columns of their own that the model has never seen.
        matrix = self._features.matrix(configs)[:, : self._width]
        return np.asarray(self._booster.predict(matrix, num_threads=1), dtype=np.float64)
