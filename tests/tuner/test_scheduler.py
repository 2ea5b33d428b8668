"""The task scheduler on synthetic curves."""

from __future__ import annotations

import math
import random

from tuner.search.scheduler import Curve, choose, total_s


def landscape(start: float, floor: float, pace: float, seed: int) -> list[float]:
    """Costs of successive trials: noise above a level that falls from ``start`` towards ``floor``."""
    rng = random.Random(seed)
    levels = [floor + (start - floor) * math.exp(-pace * n) for n in range(400)]
    return [level * (1 + 0.2 * rng.random()) for level in levels]


# (weight, costs): heavy and improvable, heavy and flat, light and improvable, light and flat.
TASKS = [
    (10, landscape(4e-3, 1e-3, 0.05, 1)),
    (10, landscape(2e-3, 1.95e-3, 0.05, 2)),
    (1, landscape(1e-3, 0.3e-3, 0.05, 3)),
    (1, landscape(0.2e-3, 0.19e-3, 0.1, 4)),
    (2, landscape(1e-3, 0.9e-3, 0.3, 5)),
]


def area(policy) -> float:
    """Model time summed over 40 batches of 4 trials after each task's first: less is faster progress."""
    curves = [Curve(weight, space_size=1000) for weight, _ in TASKS]
    left = [list(costs) for _, costs in TASKS]
    area = 0.0
    for turn in range(45):
        at = policy(turn, curves)
        n = 1 if curves[at].trials == 0 else 4
        curves[at].add([left[at].pop(0) for _ in range(n)])
        if turn >= len(TASKS):
            area += total_s(curves)
    return area


def test_the_model_gets_fast_sooner_than_by_round_robin():
    ours = area(lambda _, curves: choose(curves))
    turns = area(lambda turn, curves: turn % len(curves))
    assert ours < 0.9 * turns


def test_every_task_gets_its_first_trial_first():
    curves = [Curve(weight, 100) for weight in (1, 100, 10)]
    first = []
    for _ in curves:
        at = choose(curves)
        curves[at].in_flight += 1
        first.append(at)
    assert sorted(first) == [0, 1, 2]


def test_what_is_in_flight_lets_others_go_first():
    curves = [Curve(1, 1000), Curve(1, 1000)]
    for curve in curves:
        curve.add([1.0])
    first = choose(curves)
    curves[first].in_flight += 8
    assert choose(curves) == 1 - first


def test_a_task_that_stopped_improving_is_closed():
    curve = Curve(1, space_size=100)
    curve.add([1.0, *[0.995] * (curve.patience - 1)])
    assert curve.open
    curve.add([0.995])
    assert curve.plateau
    assert choose([curve]) is None


def test_an_improvement_reopens_the_wait():
    curve = Curve(1, space_size=100)
    curve.add([1.0, *[1.0] * (curve.patience - 1), 0.9])
    assert curve.open


def test_larger_spaces_need_more_patience():
    patiences = [Curve(1, size).patience for size in (10, 400, 10**6)]
    assert patiences == sorted(patiences)
    assert len(set(patiences)) == 3


def test_a_task_that_only_fails_reaches_its_plateau():
    curve = Curve(1, space_size=100)
    curve.add([None] * curve.patience)
    assert choose([curve]) is None


def test_exhausted_tasks_get_nothing():
    curve = Curve(1, 100, exhausted=True)
    assert choose([curve]) is None


def test_the_models_time_is_unknown_until_every_task_ran():
    curves = [Curve(2, 10), Curve(3, 10)]
    curves[0].add([1.0])
    assert total_s(curves) is None
    curves[1].add([None, 2.0])
    assert total_s(curves) == 8.0


def test_what_was_known_before_sets_the_level_but_makes_no_plateau():
    curve = Curve(1, space_size=16)
    curve.know([2e-3, None, 1e-3] * 20)
    assert (curve.best_s, curve.trials, curve.plateau) == (1e-3, 60, False)
    curve.add([1.5e-3] * curve.patience)
    assert curve.plateau
