"""A part of the sweep over special values, and what it is judged by."""

from __future__ import annotations

import numpy as np
import pytest

from bench.special_values.__main__ import batches, summed, told
from bench.special_values.judge import difference, far_from
from bench.special_values.kinds import Kind, all_kinds
from bench.special_values.trial import tried
from kernels.target import CATALOGUE
from worker.measure.host import host_target


@pytest.mark.timeout(600)
def test_five_hundred_cases_are_right() -> None:
    target = host_target()
    rows = [summed(list(tried(*batch, 1, target))) for batch in batches(500, 1, "", target)]
    assert sum(sum(row["verdicts"].values()) for row in rows) == 500
    assert not any(row["wrong"] or row["refused"] for row in rows), told(rows)


def test_cases_are_drawn_from_every_type_layout_and_numerics() -> None:
    target = CATALOGUE["x86-avx2"]
    drawn = [
        (kind, value)
        for kinds, some in batches(2000, 5, "", target)
        for kind, values in zip(kinds, some, strict=True)
        for value in values
    ]
    assert len(set(drawn)) == len(drawn) == 2000
    for name in ("dtype", "layout", "numerics"):
        words = {getattr(kind, name) for kind in all_kinds(("nhwc", "nchw8c"))}
        assert {getattr(kind, name) for kind, _ in drawn} == words
    assert sum(len(kind.values) for kind in all_kinds(("nhwc", "nchw8c"))) > 20000


def test_a_value_that_vanishes_is_seen() -> None:
    right = np.array([np.nan, np.inf, 1, 3e38], np.float32)
    everywhere = np.ones(4, bool)
    assert not difference(right.copy(), right, everywhere)
    for place, value in ((0, 0.0), (1, -np.inf), (2, 1.01), (3, 0.0)):
        lost = right.copy()
        lost[place] = value
        assert difference(lost, right, everywhere).startswith("1 of 4")
    assert not difference(np.array([np.nan, np.inf, 1, np.inf], np.float32), right, everywhere)
    # Where something spreads, all but a NaN may be other.
    assert difference(np.array([0, np.nan, np.nan, 1], np.float32), right, ~everywhere).startswith("1 of 4")


def test_what_is_near_a_special_value_is_left_out() -> None:
    data = np.zeros((1, 2, 30, 40), np.float32)
    data[0, 1, 3, 20] = np.inf
    far = far_from(data, (1, 4, 15, 20))
    assert not far[0, :, 1, 10].any()
    assert far[0, :, 14].all()
    assert far[0, :, :, 0].all()


def test_what_cannot_be_built_is_told_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [Kind("Neg"), Kind("Abs")]

    def unable(*_: object, **__: object) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr("bench.special_values.trial.build_model", unable)
    outcomes = list(tried(kinds, [("nan",), ("inf",)], 1, host_target()))
    assert [(each.kind.form, each.verdict) for each in outcomes] == [("Neg", "wrong"), ("Abs", "wrong")]
    assert "no kernel" in told([summed(outcomes)]) or summed(outcomes)["wrong"][0].endswith(
        "RuntimeError: no kernel"
    )
