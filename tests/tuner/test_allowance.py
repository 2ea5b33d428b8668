"""How large batches are while a budget runs out."""

from __future__ import annotations

import math

import pytest

from tuner.job.budget import BATCH, BATCH_S, SMALLEST, Allowance
from tuner.spec import Budget
from tuner.states import Phase

FLIGHTS = 3


def sizes(allowance: Allowance, trials: int) -> list[int]:
    """All batches of a job of so many trials, one after the other."""
    found: list[int] = []
    while size := allowance.batch(sum(found), 0, FLIGHTS):
        found.append(size)
    assert sum(found) == trials
    return found


@pytest.mark.parametrize("trials", [3, 10, 40, 61, 400])
def test_batches_shrink_towards_the_end_but_only_the_last_is_tiny(trials: int) -> None:
    found = sizes(Allowance(Budget(trials=trials), 0.0, final=0), trials)
    assert found == sorted(found, reverse=True)
    assert all(SMALLEST <= size <= BATCH for size in found[:-1])
    assert found[0] == min(BATCH, trials, max(SMALLEST, -(-trials // FLIGHTS)))


def test_only_slow_candidates_come_in_smaller_batches() -> None:
    for board_s, size in ((0.0, BATCH), (0.1, BATCH), (BATCH_S / 3.5, 3), (3 * BATCH_S, 1)):
        allowance = Allowance(Budget(trials=400), 0.0, final=0)
        allowance.observe(8, 8 * board_s)
        assert allowance.batch(8, 0, FLIGHTS) == size


def test_first_batches_leave_time_for_the_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("tuner.job.budget.time.monotonic", lambda: now)
    allowance = Allowance(Budget(seconds=110), 0.0, final=0)
    assert allowance.opening(0, 0, waiting=10, wanted=12) == 1, "nobody knows yet how long a trial takes"
    assert allowance.opening(0, 0, waiting=1, wanted=12) == 12, "nobody else waits for the seconds"
    trials = Allowance(Budget(trials=400), 0.0, final=0)
    assert trials.opening(0, 0, waiting=10, wanted=12) == 12, "a trial is a trial, however long"
    now = 10.0
    allowance.observe(4, 4.0)
    # A hundred seconds at 0.4 trials a second, less the four on their way: two for each of nine, twice.
    assert allowance.opening(8, 4, waiting=9, wanted=12) == 2
    now = 108.0
    assert allowance.opening(40, 0, waiting=2, wanted=12) == 1


def test_the_time_left_after_the_search_is_told_only_where_the_seconds_ended_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("tuner.job.budget.time.monotonic", lambda: now)
    by_time = Allowance(Budget(seconds=100), 0.0, final=6, place=True)
    by_trials = Allowance(Budget(trials=60), 0.0, final=6, place=True)
    now = 10.0
    for allowance in (by_time, by_trials):
        allowance.observe(30, 10.0)
    assert (by_time.eta(30, Phase.SEARCHING), by_trials.eta(30, Phase.SEARCHING)) == (90.0, 10.0)
    assert by_time.eta(30, Phase.REMEASURING) is None, "it ended early, by a plateau: 90 s would be wrong"
    now = 70.0
    assert by_time.eta(200, Phase.REMEASURING) == by_time.eta(200, Phase.COMPARING) == 30.0
    assert by_time.eta(200, Phase.BUILDING) == 30.0
    assert by_trials.eta(60, Phase.REMEASURING) is by_trials.eta(60, Phase.BUILDING) is None


def test_what_the_last_build_takes_is_kept_of_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("tuner.job.budget.time.monotonic", lambda: now)
    allowance = Allowance(Budget(seconds=60), 0.0, final=0, place=True, reserve_s=20.0)
    assert (allowance.place_left(), allowance.verify_left()) == (40.0, 32.0)
    assert Allowance(Budget(seconds=60), 0.0, final=0, reserve_s=20.0).search_left() == 40.0
    assert Allowance(Budget(seconds=5), 0.0, final=6, place=True, reserve_s=20.0).spent(0)
    assert Allowance(Budget(trials=5), 0.0, final=6, place=True, reserve_s=20.0).search_left() == math.inf


def test_what_a_job_waited_is_not_of_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("tuner.job.budget.time.monotonic", lambda: now)
    allowance = Allowance(Budget(seconds=100), 0.0, final=0)
    now = 10.0
    allowance.observe(20, 10.0)
    now += 3600.0  # its board was away
    allowance.waited(3600.0)
    assert allowance.left() == pytest.approx(90)
    assert allowance.rate == pytest.approx(2)
    assert allowance.batch(20, 0, FLIGHTS) == BATCH
