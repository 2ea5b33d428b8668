"""The surrogate of the strategy ``model``, on a landscape of which every cost is known."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from kernels.layout import Layouts
from kernels.space import Config, SearchSpace, Space
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from tuner.search import acquire
from tuner.search.features import Features
from tuner.search.posterior import JUDGED, Posterior
from tuner.search.problem import Problem

SIZES = (1, 2, 4, 8, 16, 32, 64)
BLOCKS = ("4x3", "6x2", "14x1")
NHWC = Layouts("nhwc", "nhwc")


def problem() -> Problem:
    wide = {"block": BLOCKS, "depth": SIZES, "order": ("is", "ws")}
    spaces = (
        Space("wide", wide),
        Space("wide", wide, layouts=NHWC),
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
    plain = 1 + 0.2 * block + 0.3 * abs(depth - 4) + (0.5 if config["order"] == "ws" else 0)
    return 1e-3 * plain * (1.3 if config.layouts == NHWC else 1.0)


POINTS = list(problem().space)
LOGS = np.log([cost(config) for config in POINTS])
FEATURES = Features(problem(), POINTS)


def learned(places: list[int], seed: int = 0) -> Posterior:
    posterior = Posterior(FEATURES, seed)
    posterior.learn(places, LOGS[places].tolist())
    return posterior


def split(samples: int) -> tuple[list[int], list[int]]:
    places = list(range(len(POINTS)))
    random.Random(0).shuffle(places)
    return places[:samples], places[samples:]


def means(posterior: Posterior) -> np.ndarray:
    return sum(belief.share * belief.mean for belief in posterior.beliefs)


@pytest.mark.parametrize("samples", [40, JUDGED + 20])
def test_ranks_what_it_has_not_seen(samples: int) -> None:
    trained, rest = split(samples)
    expected = means(learned(trained))
    assert np.abs(expected[trained] - LOGS[trained]).max() < 0.1
    order = np.argsort(np.argsort(expected[rest])), np.argsort(np.argsort(LOGS[rest]))
    assert np.corrcoef(*order)[0, 1] > 0.85


def test_what_was_tried_is_sure_and_what_was_not_is_not() -> None:
    trained, rest = split(30)
    for belief in learned(trained).beliefs:
        assert belief.spread[trained].mean() < 0.8 * belief.spread[rest].mean()


def test_what_is_expected_leaves_its_neighbours_surer_and_the_means_as_they_were() -> None:
    trained, rest = split(20)
    posterior = learned(trained)
    before = [(belief.mean.copy(), belief.variance.copy()) for belief in posterior.beliefs]
    place = rest[0]
    posterior.expect(place)
    for (mean, variance), belief in zip(before, posterior.beliefs, strict=True):
        assert (belief.mean == mean).all()
        assert (belief.variance <= variance + 1e-12).all()
        assert belief.variance[place] < 0.5 * variance[place]
        # The same as if it had been tried and had cost that.
        process, both = belief.process, np.array([*trained, place])
        covariance = process.covariance(FEATURES, both, both) + process.noise * np.eye(len(both))
        across = process.covariance(FEATURES, both, np.array(rest))
        exact = 1 - (across * np.linalg.solve(covariance, across)).sum(axis=0)
        assert belief.variance[rest] == pytest.approx(exact, abs=1e-4)


def test_improvement_is_what_samples_say() -> None:
    trained, rest = split(20)
    posterior = learned(trained)
    bounds = np.full(len(POINTS), LOGS[trained].min())
    found = acquire.expected_improvement(posterior, np.array(rest), bounds)
    draws = np.random.default_rng(0).standard_normal(20_000)
    for place, gain in list(zip(rest, found, strict=True))[::20]:
        sampled = sum(
            belief.share
            * np.maximum(bounds[place] - belief.mean[place] - belief.spread[place] * draws, 0).mean()
            for belief in posterior.beliefs
        )
        assert gain == pytest.approx(sampled, rel=0.2, abs=1e-4)


def test_a_batch_is_of_different_points_and_spread_out() -> None:
    trained, _ = split(20)
    posterior = learned(trained)
    new = np.ones(len(POINTS), bool)
    new[trained] = False

    def goals() -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(POINTS), LOGS[trained].min()), np.ones(len(POINTS))

    greedy = acquire.batch(learned(trained), new, goals, lambda _: None, 8)
    spread = acquire.batch(posterior, new, goals, posterior.expect, 8)
    assert len(set(spread)) == 8
    assert not set(spread) & set(trained)
    assert spread[0] == greedy[0]

    def nearness(batch: list[int]) -> float:
        process = posterior.beliefs[0].process
        return float(process.covariance(FEATURES, np.array(batch), np.array(batch)).mean())

    assert nearness(spread) < nearness(greedy)
    everything = acquire.batch(learned(trained), new, goals, lambda _: None, 10_000)
    assert sorted(everything) == sorted(np.flatnonzero(new))


def test_same_seed_same_beliefs() -> None:
    trained, _ = split(30)
    one, other, third = learned(trained, 7), learned(trained, 7), learned(trained, 8)
    assert (means(one) == means(other)).all()
    assert (means(one) != means(third)).any()


def test_features_tell_every_config_from_every_other() -> None:
    rows = {
        (kernel, layouts, row.tobytes())
        for kernel, layouts, row in zip(FEATURES.kernels, FEATURES.layouts, FEATURES.knobs, strict=True)
    }
    assert len(rows) == len(POINTS)
    assert not FEATURES.predicted.any()  # all predicted alike: nothing to tell them by
