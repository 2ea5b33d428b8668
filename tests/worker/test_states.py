"""The two state machines of a board."""

from __future__ import annotations

import pytest

from worker.fleet.states import MAX_FAILURES, Activity, Health, Standing, activity

GOOD = Standing(Health.GOOD, "")


def test_a_new_board_is_good_only_after_its_check():
    assert Standing().health is Health.UNKNOWN
    assert Standing().check_passed() == GOOD


def test_repeated_failure_parks_even_when_checks_pass_between():
    standing = GOOD
    for failure in range(MAX_FAILURES):
        assert standing.health is Health.GOOD
        standing = standing.fault(f"upload cut {failure}")
        assert standing.reason == f"upload cut {failure}"
        standing = standing.check_passed() if failure < MAX_FAILURES - 1 else standing
    assert standing.health is Health.BAD
    assert standing.check_passed().health is Health.BAD
    assert standing.fault("more").reason == standing.reason
    assert standing.put_back().check_passed() == GOOD


def test_good_service_ends_the_row_of_failures():
    standing = GOOD
    for _ in range(3 * MAX_FAILURES):
        standing = standing.fault("cut").check_failed("no answer").check_passed().served()
        assert standing == GOOD


def test_a_draining_board_keeps_its_health_until_its_lease_ends():
    standing = GOOD.drain("new fan")
    assert (standing.health, standing.draining) == (Health.GOOD, True)
    assert standing.drained() == Standing(Health.MAINTENANCE, "new fan")
    assert standing.fault("cut").drained().health is Health.MAINTENANCE
    assert GOOD.drained() == GOOD


@pytest.mark.parametrize("out", [GOOD.park("hot"), GOOD.retire("sold")])
def test_what_an_operator_took_out_stays_out(out):
    for after in (out.fault("x"), out.check_failed("x"), out.check_passed(), out.served(), out.doubt("x")):
        assert after.health is out.health
        assert after.reason == out.reason


def test_a_board_that_comes_back_is_checked():
    assert GOOD.came_back().health is Health.UNKNOWN
    assert GOOD.came_back().failures == 0
    assert GOOD.doubt("slow") == Standing(Health.UNKNOWN, "slow")


@pytest.mark.parametrize(
    ("alive", "leased", "measuring", "draining", "does"),
    [
        (True, False, False, False, Activity.IDLE),
        (True, True, False, False, Activity.LEASED),
        (True, True, True, False, Activity.MEASURING),
        (True, True, True, True, Activity.DRAINING),
        (True, False, False, True, Activity.IDLE),
        (False, True, True, True, Activity.OFFLINE),
    ],
)
def test_what_a_board_does(alive, leased, measuring, draining, does):
    assert activity(alive=alive, leased=leased, measuring=measuring, draining=draining) is does
