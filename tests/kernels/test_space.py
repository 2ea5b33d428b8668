"""Spaces: enumeration, validity, and the moves that the strategies make."""

from __future__ import annotations

import itertools
import random

import pytest

from kernels import registry
from kernels.space import Config, Knobs, SearchSpace, Space
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d


def _too_big(knobs: Knobs) -> str | None:
    rows, columns = knobs["rows"], knobs["columns"]
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    return "more than 12 accumulators" if rows * columns > 12 else None


SPACE = Space("toy", {"rows": [1, 2, 4, 6], "columns": [1, 2, 3, 4], "order": ["IS", "WS"]}, _too_big)


def test_enumeration_holds_exactly_the_valid_points() -> None:
    points = list(SPACE)
    assert len(points) == len(set(points)) == 2 * 13
    assert all(SPACE.why_not(point) is None for point in points)


def test_moves_stay_valid_and_move() -> None:
    rng = random.Random(1)
    parent = SPACE.sample(rng)
    other = SPACE.sample(rng)
    assert parent
    assert other
    for _ in range(200):
        child = SPACE.mutate(parent, rng)
        cross = SPACE.cross(parent, other, rng)
        assert child != parent
        for point in (child, cross):
            assert point
            assert SPACE.why_not(point) is None


def test_a_space_without_a_choice_does_not_move() -> None:
    single = Space("toy", {"rows": [1]})
    assert single.mutate(Config.of("toy", rows=1), random.Random(1)) is None
    assert Space("toy", {"rows": [9]}, lambda _: "never").sample(random.Random(1)) is None


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (Config.of("toy", rows=4, columns=4, order="IS"), "more than 12"),
        (Config.of("toy", rows=3, columns=1, order="IS"), "rows=3 is not one of"),
        (Config.of("toy", rows=4), "has the knobs"),
        (Config.of("other"), "does not apply"),
    ],
)
def test_why_not_names_the_reason(config: Config, reason: str) -> None:
    assert reason in (SearchSpace((SPACE,)).why_not(config) or "")


def test_config_round_trip_and_name() -> None:
    config = Config.of("toy", rows=4, order="IS")
    assert Config.from_json(config.to_json()) == config
    assert config.key == Config.of("toy", order="IS", rows=4).key
    assert config.key != Config.of("toy", rows=2, order="IS").key
    with pytest.raises(ValueError, match="names its kernel"):
        Config.from_json({"rows": 4})
    with pytest.raises(ValueError, match="knob rows must be a number or a word"):
        Config.from_json({"kernel": "toy", "rows": [4]})
    with pytest.raises(ValueError, match="order must be a number"):
        config.int("order")


@pytest.mark.parametrize("name", ["rpi4", "x86-avx2", "power10"])
def test_every_prediction_is_a_time(name: str) -> None:
    """Also where a picture has fewer pixels than a tile: what is predicted below 0 would always be picked."""
    target = CATALOGUE[name]
    for channels, side, filters in itertools.product((3, 960), (1, 2), (8, 320)):
        conv = Conv2d(10, channels, side, side, filters, 1, 1)
        for config in registry.recommendations(conv, target, any_layout=True):
            seconds = registry.kernel(config.kernel).predict(conv, config, target)
            assert 0 < seconds < 1, (conv, config)
