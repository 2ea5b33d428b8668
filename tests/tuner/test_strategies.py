"""One contract for every strategy, on a synthetic landscape of two kernels and on real spaces."""

from __future__ import annotations

import random
import statistics

import pytest

from kernels.space import Config, Knobs, SearchSpace, Space
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, Gemm
from tuner.search.problem import Problem
from tuner.search.strategies import STRATEGIES, make

AVX2 = CATALOGUE["x86-avx2"]
CONV = Conv2d(1, 64, 28, 28, 64, 3, 3, pad=(1, 1, 1, 1))
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


def synthetic_cost(config: Config) -> float | None:
    """A ridge with its valley at one point of ``fast``; ``slow`` is never better than 1.5 times that."""
    if config["unroll"] == 8 and config["tile"] == 128:
        return None
    tile, block, unroll = (SIZES.index(config.int(knob)) for knob in ("tile", "block", "unroll"))
    away = (tile - 5) ** 2 + (block - 2) ** 2 + 0.3 * (unroll - 1) ** 2 + 0.5 * (tile + block - 7) ** 2
    return 1e-3 * (1 + 0.05 * away) * (1.5 if config.kernel == "slow" else 1.0)


def synthetic() -> Problem:
    def invalid(point: Knobs) -> str | None:
        return "too large" if int(point["tile"]) * int(point["block"]) > 4096 else None

    knobs = {"tile": SIZES, "block": SIZES, "unroll": SIZES[:4]}
    spaces = tuple(Space(kernel, knobs, invalid) for kernel in ("slow", "fast"))
    seeds = tuple(Config.of(kernel, tile=4, block=64, unroll=1) for kernel in ("slow", "fast"))
    return Problem(CONV, AVX2, SearchSpace(spaces), seeds, lambda config: config.int("tile") * 1e-4)


PROBLEMS = {
    "synthetic": synthetic,
    "conv": lambda: Problem.of(CONV, AVX2),
    "gemm": lambda: Problem.of(Gemm(64, 96, 128), AVX2),
}


def run(name: str, problem: Problem, trials: int, seed: int = 0, batch: int = 8) -> list[Config]:
    """Ask and tell until ``trials`` are made or the strategy is exhausted; the configs in order."""
    strategy = make(name, problem, random.Random(seed))
    asked: list[Config] = []
    while len(asked) < trials:
        configs = strategy.ask(min(batch, trials - len(asked)))
        if not configs:
            break
        asked += configs
        costs = [synthetic_cost(c) if "tile" in dict(c.knobs) else problem.predict(c) for c in configs]
        strategy.tell(list(zip(configs, costs, strict=True)))
    return asked


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_asks_new_valid_configs_the_analysis_first(name, problem):
    problem = problem()
    asked = run(name, problem, trials=60)
    assert asked[0] == problem.seeds[0]
    assert len(set(asked)) == len(asked)
    assert [problem.space.why_not(config) for config in asked] == [None] * len(asked)


@pytest.mark.parametrize("name", STRATEGIES)
def test_same_seed_same_questions(name):
    assert run(name, synthetic(), 48, seed=3) == run(name, synthetic(), 48, seed=3)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in ("analysis", "exhaustive")])
def test_other_seed_other_questions(name):
    assert run(name, synthetic(), 48, seed=3) != run(name, synthetic(), 48, seed=4)


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_was_told_is_not_asked(name):
    problem = synthetic()
    told = [*problem.seeds, *list(problem.space)[:100]]
    strategy = make(name, problem, random.Random(0))
    strategy.tell([(config, synthetic_cost(config)) for config in told])
    asked = [config for _ in range(5) for config in strategy.ask(8)]
    assert not set(asked) & set(told)


@pytest.mark.parametrize("name", STRATEGIES)
def test_asking_again_without_an_answer_does_not_repeat(name):
    strategy = make(name, synthetic(), random.Random(0))
    asked = [config for _ in range(10) for config in strategy.ask(8)]
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "analysis"])
def test_exhausts_the_whole_space(name):
    problem = synthetic()
    everything = set(problem.space)
    asked = run(name, problem, trials=10_000, batch=64)
    assert set(asked) == everything


def test_exhaustive_asks_by_the_prediction():
    problem = synthetic()
    asked = run("exhaustive", problem, trials=60)[len(problem.seeds) :]
    predicted = [problem.predict(config) for config in asked]
    assert predicted == sorted(predicted)


def test_a_bandit_gives_turns_to_who_finds_better_ones():
    bandit = make("bandit", synthetic(), random.Random(0))
    bandit.tell([(config, 1.0) for config in bandit.ask(2)])
    for at in range(12):
        for config in bandit.ask(8):
            hit = bandit._asked_by[config] == "annealing"
            bandit.tell([(config, 0.5 / (1 + at) if hit else 1.0)])
    turns = bandit._turns(8)
    assert turns["annealing"] == max(turns.values()) >= 4


def test_analysis_asks_one_config():
    assert run("analysis", synthetic(), trials=10) == [synthetic().seeds[0]]


@pytest.mark.parametrize("name", STRATEGIES)
def test_survives_when_everything_fails(name):
    problem = synthetic()
    strategy = make(name, problem, random.Random(0))
    for _ in range(6):
        configs = strategy.ask(8)
        strategy.tell([(config, None) for config in configs])
    assert len(strategy.ask(8)) == (0 if name == "analysis" else 8)


def best_after(name: str, trials: int) -> float:
    """Median over seeds of the best cost found, relative to the best there is."""
    problem = synthetic()
    floor = min(cost for config in problem.space if (cost := synthetic_cost(config)))
    bests = []
    for seed in range(9):
        costs = [synthetic_cost(config) for config in run(name, problem, trials, seed)]
        bests.append(min(cost for cost in costs if cost) / floor)
    return statistics.median(bests)


@pytest.mark.parametrize("name", ["annealing", "bandit", "evolution", "model"])
def test_beats_random_search(name):
    assert best_after(name, 48) < best_after("random", 48)


@pytest.mark.parametrize("name", ["evolution", "model"])
def test_every_kernel_is_tried_and_the_loser_is_dropped(name):
    runs = [run(name, synthetic(), trials=80, seed=seed) for seed in range(3)]
    assert all(sum(config.kernel == "slow" for config in asked) >= 6 for asked in runs)
    assert statistics.fmean(sum(config.kernel == "slow" for config in asked[40:]) for asked in runs) <= 8


def test_unknown_strategy_names_those_there_are():
    with pytest.raises(ValueError, match=r"unknown strategy 'luck'.*evolution"):
        make("luck", synthetic(), random.Random(0))
