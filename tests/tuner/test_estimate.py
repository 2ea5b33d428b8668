"""The estimate of a whole model while parts of it have no time."""

from __future__ import annotations

import math

import pytest

from tuner.job.estimate import Sums, sums_of

NONE = math.inf


@pytest.mark.parametrize(
    ("layers", "seconds"),
    [
        ([(2, 3.0, 1.0), (1, 4.0, 2.0)], 10.0),
        ([(2, 3.0, 1.0), (1, NONE, 2.0)], 12.0),  # the first took three times what was predicted
        ([(2, 3.0, 1.0), (1, NONE, None)], None),
        ([(2, 3.0, None), (1, NONE, 2.0)], None),
        ([(2, 3.0, None), (1, 4.0, None)], 10.0),
        ([(2, NONE, 1.0)], None),
        ([], None),
    ],
)
def test_a_layer_without_a_time_is_as_predicted_times_what_others_took(
    layers: list[tuple[int, float, float | None]], seconds: float | None
) -> None:
    assert sums_of(layers).layers_s == seconds


def test_what_is_not_tuned_is_a_share_of_the_layers_by_prediction() -> None:
    sums = sums_of([(2, 3.0, 1.0), (1, NONE, 2.0)])
    assert sums.share_of(1.0) == 0.25
    assert sums_of([(2, 3.0, 1.0), (1, 9.0, None)]).share_of(1.0) == 0.0
    assert Sums().share_of(1.0) == 0.0
