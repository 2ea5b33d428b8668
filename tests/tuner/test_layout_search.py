"""The search over pairs of layouts: which are given up, and that the others all get good configs."""

from __future__ import annotations

import random

import pytest

from kernels.layout import PLAIN, Layouts
from kernels.space import Config, SearchSpace, Space
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from tuner.layouts import race as layout_race
from tuner.search.calibration import Calibration
from tuner.search.problem import Problem
from tuner.search.strategies import make

POINTWISE = Conv2d(1, 64, 56, 56, 256, 1, 1)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
WORDS = ("nchw", "nhwc", "nchw8c")
PAIRS = tuple(Layouts(data, out) for data in WORDS for out in WORDS)
FACTORS = {"nchw": 1.0, "nhwc": 1.15, "nchw8c": 0.9}
KERNELS = {"good": 1.0, "other": 1.1, "bad": 4.0}


def cost(config: Config) -> float:
    """A valley whose place depends a little on the layouts, times what kernel and layouts cost."""
    layouts = config.layouts
    tile, block = (SIZES.index(config.int(knob)) for knob in ("tile", "block"))
    away = (tile - 5 - (layouts.out == "nchw8c")) ** 2 + (block - 2) ** 2
    return 1e-3 * KERNELS[config.kernel] * FACTORS[layouts.data] * FACTORS[layouts.out] * (1 + 0.05 * away)


def predicted(config: Config) -> float:
    """Off by a factor that depends on the layouts."""
    return cost(config) * (1.6 if "nhwc" in config.layouts else 1.0)


def problem(workload: Conv2d = POINTWISE) -> Problem:
    knobs = {"tile": SIZES, "block": SIZES, "unroll": SIZES[:4]}
    spaces = tuple(Space(kernel, knobs, layouts=pair) for kernel in KERNELS for pair in PAIRS)
    seeds = [next(config for config in space if config["tile"] == 8) for space in spaces]
    seeds.sort(key=lambda seed: (seed.layouts != PLAIN, predicted(seed)))
    return Problem(workload, CATALOGUE["x86-avx2"], SearchSpace(spaces), tuple(seeds), predicted)


def test_sixty_trials_serve_every_useful_pair() -> None:
    searched, found = problem(), []
    for seed in range(5):
        strategy, best, bad = make("model", searched, random.Random(seed)), dict.fromkeys(PAIRS, 1.0), 0
        strategy.begin_with(Calibration().seeds(searched))
        assert strategy.ask(0) == []
        for _ in range(15):
            asked = strategy.ask(4)
            strategy.tell([(config, cost(config)) for config in asked])
            bad += sum(config.kernel == "bad" for config in asked)
            for config in asked:
                best[config.layouts] = min(best[config.layouts], cost(config))
        assert bad == 0
        least = {pair: 1e-3 * FACTORS[pair.data] * FACTORS[pair.out] for pair in PAIRS}
        bounds = layout_race.bounds(POINTWISE, least)
        assert any(bounds[pair] == least[pair] for pair in PAIRS if pair != PLAIN)
        found += [best[pair] / least[pair] for pair in PAIRS if bounds[pair] == least[pair]]
    assert sorted(found)[int(0.9 * len(found))] <= 1.06, sorted(found)


def test_a_pair_is_given_up_when_converting_is_cheaper() -> None:
    """Converting a small tensor costs little beside a long computation: the fastest pair bounds the other."""
    small = Conv2d(1, 512, 7, 7, 512, 3, 3, pad=(1, 1, 1, 1))
    slow_pair, fast_pair = Layouts("nhwc", "nhwc"), Layouts("nchw8c", "nchw8c")
    times = {slow_pair: 2e-3, fast_pair: 1e-3}
    bounds = layout_race.bounds(small, times)
    assert bounds[fast_pair] == 1e-3
    assert 1e-3 < bounds[slow_pair] < 1.2e-3
    large = Conv2d(1, 64, 112, 112, 64, 1, 1)
    assert layout_race.bounds(large, times)[slow_pair] == 2e-3


def test_what_some_tasks_show_orders_the_seeds_of_others() -> None:
    searched, calibration = problem(), Calibration()
    before = calibration.seeds(searched)
    assert before[0] == searched.seeds[0]
    assert not any(seed.kernel == "bad" for seed in before)
    place = before.index(next(seed for seed in before[1:] if "nhwc" not in seed.layouts))
    assert all("nhwc" not in seed.layouts for seed in before[:place])
    for _ in range(3):
        for seed in searched.seeds:
            # NHWC is fast, whatever was predicted, and ``other`` far slower.
            off = (0.5 if "nhwc" in seed.layouts else 1.0) * (3 if seed.kernel == "other" else 1)
            calibration.learn(searched, seed, cost(seed) * off)
    after = calibration.seeds(searched)
    assert after[0] == searched.seeds[0]
    assert {seed.kernel for seed in after} == {"good"}
    assert calibration.predict(searched, after[1]) == pytest.approx(
        cost(after[1]) * (0.5 if "nhwc" in after[1].layouts else 1.0)
    )
