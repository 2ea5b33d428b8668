"""How much each knob matters for one workload, by what was measured of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels import registry
from kernels.space import Config
from kernels.target import from_json as target_from_json
from kernels.workload.base import from_json

LEAST = 20
"""Trials that ran, below which nothing is learned."""
_ROUNDS, _FOLDS = 80, 5
_PARAMETERS = {
    "objective": "regression",
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_data_in_leaf": 3,
    "min_sum_hessian_in_leaf": 1e-3,
    "min_data_in_bin": 1,
    "lambda_l2": 0.5,
    "feature_pre_filter": False,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
    "seed": 0,
}
Matrix = npt.NDArray[np.float64]


def insight_in_child(payload: dict[str, Any]) -> dict[str, Any]:
    """Child: of ``{"workload", "target", "threads", "samples": [{"config", "cost_s"}]}``, as JSON, what
    the machine model predicts for each config (None where its kernel is no more), how much each knob
    matters, and how much of the costs' variance the knobs explain."""
    workload, target = from_json(payload["workload"]), target_from_json(payload["target"])
    configs = [Config.from_json(sample["config"]) for sample in payload["samples"]]
    predicted = [_predicted(workload, config, target, payload["threads"]) for config in configs]
    ran = [
        (config, sample["cost_s"])
        for config, sample in zip(configs, payload["samples"], strict=True)
        if sample["cost_s"] is not None
    ]
    return {"predicted_s": predicted, **importance(ran)}


def _predicted(workload: Any, config: Config, target: Any, threads: int) -> float | None:
    try:
        seconds = registry.kernel(config.kernel).predict(workload, config, target, threads)
    except Exception:  # a config of another version of its kernel may be anything
        return None
    return float(seconds) if 0 < seconds < float("inf") else None


def importance(samples: Sequence[tuple[Config, float]]) -> dict[str, Any]:
    """``knobs``, the mean size of each one's effect on the logarithm of the cost, the largest first, and
    ``explained``, the share of the variance that trees predict of trials they have not seen; no knobs and
    None below ``LEAST`` trials.

    The effects are Shapley values of boosted trees: what a config's knob adds to the prediction, on average
    over the orders in which one may learn of the knobs. A knob counts the same in all kernels that have it.
    """
    if len(samples) < LEAST:
        return {"knobs": [], "explained": None}
    import lightgbm  # loads for a second

    names, matrix = _matrix([config for config, _ in samples])
    costs = np.log([cost for _, cost in samples])

    def train(rows: Any) -> Any:
        data = lightgbm.Dataset(matrix[rows], label=costs[rows])
        return lightgbm.train(_PARAMETERS, data, num_boost_round=_ROUNDS)

    folds = np.random.default_rng(0).permutation(len(costs)) % _FOLDS
    unseen = np.empty_like(costs)
    for fold in range(_FOLDS):
        unseen[folds == fold] = train(folds != fold).predict(matrix[folds == fold], num_threads=1)
    variance = float(np.var(costs))
    explained = 1 - float(np.mean((unseen - costs) ** 2)) / variance if variance > 0 else 0.0
    effects = np.abs(train(slice(None)).predict(matrix, pred_contrib=True, num_threads=1))[:, :-1].mean(
        axis=0
    )
    ranked = sorted(zip(names, effects.tolist(), strict=True), key=lambda each: -each[1])
    return {
        "knobs": [{"knob": name, "effect": effect} for name, effect in ranked if effect > 0],
        "explained": max(0.0, explained),
    }


def _matrix(configs: Sequence[Config]) -> tuple[list[str], Matrix]:
    """One row a config, one column a knob that varies, the kernel among them; values by their order, missing
    ones NaN."""
    tables = [{"kernel": config.kernel, **dict(config.knobs)} for config in configs]
    values: dict[str, set[Any]] = {}
    for table in tables:
        for name, value in table.items():
            values.setdefault(name, set()).add(value)
    # A knob with a single value is left out, also where only some kernels have it: `kernel` says that.
    names = [name for name, found in values.items() if len(found) > 1]
    places = {
        name: {value: at for at, value in enumerate(sorted(values[name], key=_natural))} for name in names
    }
    matrix = np.full((len(tables), len(names)), np.nan)
    for row, table in enumerate(tables):
        for column, name in enumerate(names):
            if name in table:
                matrix[row, column] = places[name][table[name]]
    return names, matrix


def _natural(value: Any) -> tuple[list[float], str]:
    """Numbers in their order, and words by the numbers in them."""
    return [float(number) for number in re.findall(r"\d+", str(value))], str(value)
