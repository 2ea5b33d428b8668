"""The score of a search on a known space."""

from __future__ import annotations

import itertools
import random
import statistics

import numpy as np
import pytest

from tuner.search.score import budget, random_search, scored

COSTS = [3.0, 1.0, None, 7.0, 4.0, 2.0]


def test_random_search_is_the_mean_over_all_orders() -> None:
    known = [7.0 if cost is None else cost for cost in COSTS]
    orders = list(itertools.permutations(known))
    for trials in range(1, len(known) + 1):
        expected = statistics.fmean(min(order[:trials]) for order in orders)
        assert random_search(COSTS, 9)[trials - 1] == pytest.approx(expected)
    assert random_search(COSTS, 9)[-1] == 1.0
    large = random_search([random.Random(at).random() for at in range(5_000)], 400)
    assert np.isfinite(large).all()
    assert (np.diff(large) < 0).all()


def test_zero_is_random_and_one_is_the_optimum_at_once() -> None:
    trials = budget(COSTS)
    assert random_search(COSTS, trials)[-1] <= 1 + 0.05 * (3.5 - 1) < random_search(COSTS, trials - 1)[-1]
    assert scored(COSTS, [[1.0]], 3).score == 1
    assert scored(COSTS, [random_search(COSTS, 6).tolist()], 3).score == pytest.approx(0)
    assert scored(COSTS, [[7.0] * 6], 3).score < 0
    orders = [random.Random(seed).sample([7.0 if c is None else c for c in COSTS], 6) for seed in range(4000)]
    runs = [list(itertools.accumulate(order, min)) for order in orders]
    assert scored(COSTS, runs, 3).score == pytest.approx(0, abs=0.05)


def test_regret_is_the_mean_over_runs_and_a_run_keeps_its_best() -> None:
    found = scored(COSTS, [[float("inf"), 2.0], [3.0, 3.0, 1.0]], 4)
    assert found.regret.tolist() == pytest.approx([(6 + 2) / 2, (1 + 2) / 2, (1 + 0) / 2, (1 + 0) / 2])
    with pytest.raises(ValueError, match="no config ran"):
        scored([None, None], [[1.0]], 2)


def test_a_run_that_ended_early_is_scored_over_all_trials_that_were_asked_for() -> None:
    asked = 5
    assert scored(COSTS, [[3.0]], asked).score == scored(COSTS, [[3.0] * asked], asked).score
    assert scored(COSTS, [[3.0]], asked).score < scored(COSTS, [[3.0]], 1).score


def test_a_space_in_which_all_cost_the_same_is_solved() -> None:
    assert budget([2.0, 2.0]) == 1
    assert scored([2.0, 2.0], [[2.0]], 2).score == 1
