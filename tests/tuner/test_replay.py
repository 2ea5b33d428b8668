"""Strategies on a recorded landscape: what they would have found, without measuring again.

``data/landscape.jsonl`` is every point of the kernels' spaces for one layer, timed once on one AVX2 core:
best of nine runs, the recommendations first.
"""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

from kernels.space import Config, SearchSpace, Space, Value
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from tuner.search import strategies
from tuner.search.problem import Problem

LANDSCAPE = Path(__file__).parent / "data" / "landscape.jsonl"
LAYER = Conv2d(1, 64, 56, 56, 64, 3, 3, stride=(2, 2), pad=(1, 1, 1, 1))
SEEDS = range(15)


def recorded() -> tuple[Problem, dict[Config, float]]:
    rows = [json.loads(line) for line in LANDSCAPE.read_text().splitlines()]
    costs = {Config.from_json(row["config"]): row["cost_s"] for row in rows}
    predicted = {Config.from_json(row["config"]): row["predicted_s"] for row in rows}
    kernels = list(dict.fromkeys(config.kernel for config in costs))
    spaces = tuple(_space(kernel, costs) for kernel in kernels)
    seeds = tuple(list(costs)[: len(kernels)])
    problem = Problem(LAYER, CATALOGUE["x86-avx2"], SearchSpace(spaces), seeds, predicted.__getitem__)
    return problem, costs


def _space(kernel: str, costs: dict[Config, float]) -> Space:
    configs = [config for config in costs if config.kernel == kernel]
    knobs: dict[str, list[Value]] = {}
    for config in configs:
        for knob, value in config.knobs:
            knobs[knob] = sorted({*knobs.get(knob, []), value}, key=lambda v: (isinstance(v, str), v))
    return Space(
        kernel, knobs, lambda point: None if Config.of(kernel, **point) in costs else "was not recorded"
    )


def trials_to(share: float, name: str) -> float:
    """Median over seeds of the trials until a config reaches ``share`` of the best one's speed."""
    problem, costs = recorded()
    enough = min(costs.values()) / share
    needed = []
    for seed in SEEDS:
        strategy = strategies.make(name, problem, random.Random(seed))
        asked: list[Config] = []
        while not asked or min(costs[config] for config in asked) > enough:
            config = strategy.ask(1)[0]
            strategy.tell([(config, costs[config])])
            asked.append(config)
        needed.append(len(asked))
    return statistics.median(needed)


def test_the_landscape_has_two_kernels_and_a_better_point_than_the_analysis():
    problem, costs = recorded()
    assert len(problem.seeds) == len({config.kernel for config in problem.seeds}) == 2
    assert min(costs.values()) < 0.95 * costs[problem.seeds[0]]


def test_the_model_needs_half_the_trials_of_random_search():
    assert 2 * trials_to(1.0, "model") <= trials_to(1.0, "random")
