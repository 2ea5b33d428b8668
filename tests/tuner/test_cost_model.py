"""The learned ranking model, on a landscape whose order is known."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from kernels.space import Config, SearchSpace, Space
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from tuner.search.cost_model import CostModel
from tuner.search.features import Featurizer
from tuner.search.problem import Problem

SIZES = (1, 2, 4, 8, 16, 32, 64)
BLOCKS = ("4x3", "6x2", "14x1")


def problem() -> Problem:
    spaces = (
        Space("wide", {"block": BLOCKS, "depth": SIZES, "order": ("is", "ws")}),
        Space("deep", {"depth": SIZES, "rows": SIZES}),
    )
    seed = Config.of("wide", block="4x3", depth=1, order="is")
    conv = Conv2d(1, 8, 8, 8, 8, 3, 3)
    return Problem(conv, CATALOGUE["x86-avx2"], SearchSpace(spaces), (seed,), lambda _: 1.0)


def cost(config: Config) -> float:
    depth = math.log2(config.int("depth"))
    if config.kernel == "deep":
        return 1e-3 * (2 + 0.3 * abs(depth - 2) + 0.1 * math.log2(config.int("rows")))
    block = BLOCKS.index(str(config["block"]))
    return 1e-3 * (1 + 0.2 * block + 0.3 * abs(depth - 4) + (0.5 if config["order"] == "ws" else 0))


def split(samples: int, seed: int = 0) -> tuple[list[Config], list[Config]]:
    configs = list(problem().space)
    random.Random(seed).shuffle(configs)
    return configs[:samples], configs[samples:]


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(np.argsort(np.argsort(one)), np.argsort(np.argsort(other)))[0, 1])


def test_ranks_configs_it_has_not_seen():
    train, rest = split(40)
    model = CostModel(problem())
    model.fit([(config, cost(config)) for config in train])
    predicted = model.predict(rest)
    truth = np.array([cost(config) for config in rest])
    assert rank_correlation(predicted, truth) > 0.85
    assert truth[np.argsort(predicted)[:5]].min() == truth.min()


def test_learns_to_avoid_what_fails():
    def fails(config: Config) -> bool:
        return config.kernel == "wide" and config["block"] == "14x1"

    train, rest = split(50)
    model = CostModel(problem())
    model.fit([(config, None if fails(config) else cost(config)) for config in train])
    order = np.argsort(model.predict(rest))
    assert not any(fails(rest[at]) for at in order[:10])


def test_same_seed_same_model():
    train, rest = split(30)
    samples = [(config, cost(config)) for config in train]
    one, other = CostModel(problem(), seed=7), CostModel(problem(), seed=7)
    one.fit(samples)
    other.fit(samples)
    assert (one.predict(rest) == other.predict(rest)).all()


def test_a_kernel_without_samples_can_be_ranked():
    train, rest = split(60)
    model = CostModel(problem())
    model.fit([(config, cost(config)) for config in train if config.kernel == "wide"])
    assert np.isfinite(model.predict(rest)).all()


def test_misuse_is_named():
    model = CostModel(problem())
    train, rest = split(3)
    with pytest.raises(ValueError, match="fitted before"):
        model.predict(rest)
    with pytest.raises(ValueError, match="none of the samples ran"):
        model.fit([(config, None) for config in train])


def test_features_tell_every_config_from_every_other():
    configs = list(problem().space)
    rows = Featurizer(problem()).matrix(configs)
    assert len({row.tobytes() for row in rows}) == len(configs)


def test_columns_keep_their_places():
    train, rest = split(20)
    features = Featurizer(problem())
    features.matrix(train)
    width = features.matrix(train).shape[1]
    features.matrix(rest)
    again = features.matrix(train)
    assert np.array_equal(again[:, :width], features.matrix(train)[:, :width], equal_nan=True)
    assert again[:, :width].shape[1] == width
