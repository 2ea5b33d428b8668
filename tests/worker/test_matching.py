"""Who gets which board, and what those who wait are told."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.target import CATALOGUE
from worker.demand import Demand
from worker.fleet.matching import Request, fits, match, places
from worker.fleet.states import Activity, Health
from worker.fleet.status import BoardStatus

PI, POWER10, HEXAGON = (CATALOGUE[name] for name in ("rpi4", "power10", "hexagon-v66"))


def board(id, target=PI, threads=1, tags=(), activity=Activity.IDLE, health=Health.GOOD, **more):
    return BoardStatus(id, target, threads, frozenset(tags), activity, health, **more)


def request(id, target=PI, since=0.0, avoid=frozenset(), tags=(), **more):
    return Request(id, Demand(target, tags=frozenset(tags), **more), since, avoid)


def matched(requests, boards):
    return {asking.id: chosen for asking, chosen in match(requests, boards)}


def reasons(requests, boards):
    return [(place.request.id, place.position, place.reason) for place in places(requests, boards)]


def test_priority_then_fair_share_then_age():
    waiting = [
        request(1, turn=5, since=0),
        request(2, turn=1, since=9),
        request(3, turn=1, since=3),
        request(4, turn=99, since=99, priority=1),
    ]
    order = []
    random.Random(1).shuffle(waiting)
    while waiting:
        ((served, _),) = match(waiting, [board("a")])
        order.append(served.id)
        waiting.remove(served)
    assert order == [4, 3, 2, 1]


@pytest.mark.parametrize(
    "unfit",
    [
        {"health": Health.UNKNOWN},
        {"health": Health.BAD},
        {"health": Health.MAINTENANCE},
        {"health": Health.RETIRED},
        {"activity": Activity.OFFLINE},
        {"activity": Activity.LEASED},
        {"activity": Activity.MEASURING},
        {"draining": True},
        {"target": POWER10},
        {"threads": 1},
        {"tags": ("rack-2",)},
        {"id": "b"},
        {"clock": "simulated:x"},
    ],
)
def test_only_a_free_healthy_board_of_that_kind_will_do(unfit):
    asking = request(1, threads=2, tags=("rack-1",), clock="wall", board="a")
    good = board("a", threads=2, tags=("rack-1", "fan"))
    assert match([asking], [good])
    assert not match([asking], [replace(good, **{"tags": frozenset(unfit.pop("tags", good.tags)), **unfit})])


def test_a_board_with_more_than_is_wanted_is_kept_for_those_who_need_it():
    boards = [board("a-big", threads=4), board("b-tagged", tags=("perf",)), board("c-plain")]
    # The undemanding one comes first, and still leaves the others theirs.
    asking = [request(1, turn=0), request(2, turn=1, tags=("perf",)), request(3, turn=2, threads=2)]
    assert matched(asking, boards) == {1: "c-plain", 2: "b-tagged", 3: "a-big"}


def test_one_that_cannot_be_served_does_not_hold_up_the_next():
    assert matched([request(1, priority=9, tags=("x",)), request(2)], [board("a")]) == {2: "a"}


def test_a_board_that_failed_a_request_is_its_last_resort():
    again = request(1, avoid=frozenset({"a"}))
    other = board("b")
    assert matched([again], [board("a"), other]) == {1: "b"}
    # While the other will be free some time it waits, and lets others have the board it avoids.
    busy = replace(other, activity=Activity.MEASURING)
    assert matched([again, request(2, turn=1)], [board("a"), busy]) == {2: "a"}
    for gone in ({"activity": Activity.OFFLINE}, {"health": Health.BAD}, {"draining": True}):
        assert matched([again], [board("a"), replace(other, **gone)]) == {1: "a"}
    assert matched([again], [board("a"), board("b", target=POWER10)]) == {1: "a"}


kinds = st.sampled_from([PI, POWER10])
tag_sets = st.frozensets(st.sampled_from(["x", "y"]))
boards_strategy = st.lists(
    st.builds(
        BoardStatus,
        st.uuids().map(str),
        kinds,
        st.integers(1, 2),
        tag_sets,
        st.sampled_from(Activity),
        st.sampled_from(Health),
        st.booleans(),
        clock=st.sampled_from(["wall", "simulated:x"]),
    ),
    max_size=12,
)
requests_strategy = st.lists(
    st.builds(
        Request,
        st.integers(0, 10**9),
        st.builds(
            Demand,
            kinds,
            st.integers(1, 2),
            tag_sets,
            st.sampled_from(["", "wall", "simulated:x"]),
            priority=st.integers(0, 2),
            turn=st.floats(0, 9),
        ),
        st.floats(0, 9),
    ),
    max_size=12,
    unique_by=lambda request: request.id,
)


@given(requests_strategy, boards_strategy)
def test_every_pair_is_right_nothing_is_given_twice_and_nothing_is_left_lying(waiting, boards):
    by_id = {board.id: board for board in boards}
    pairs = match(waiting, boards)
    given_away = [id for _, id in pairs]
    served = [request.id for request, _ in pairs]
    assert len(set(given_away)) == len(given_away)
    assert len(set(served)) == len(served)
    for request, id in pairs:
        view = by_id[id]
        assert fits(request.demand, view)
        assert view.health is Health.GOOD
        assert view.activity is Activity.IDLE
        assert not view.draining
        # Nobody who comes before it and could use this board goes without one.
        for other in waiting:
            if other.order < request.order and fits(other.demand, view):
                assert other.id in served
    left = [view for view in boards if view.id not in given_away and view.free]
    assert not any(
        fits(request.demand, view) for request in waiting for view in left if request.id not in served
    )


@given(requests_strategy, boards_strategy)
def test_positions_count_those_before_that_want_the_same_boards(waiting, boards):
    stands = places(waiting, boards)
    assert [place.request.order for place in stands] == sorted(request.order for request in waiting)
    for at, place in enumerate(stands):
        mine = {view.id for view in boards if fits(place.request.demand, view)}
        rivals = [
            before
            for before in stands[:at]
            if mine & {view.id for view in boards if fits(before.request.demand, view)}
        ]
        assert place.position == len(rivals) + 1
        assert place.reason


def test_what_those_who_wait_are_told():
    busy = board("pi-a", activity=Activity.MEASURING, job=7)
    asking = [
        request(1, turn=5),
        request(2, turn=6),
        request(3, priority=2),
        request(4, priority=1),
        request(5, target=HEXAGON),
    ]
    assert reasons(asking, [busy, board("h", HEXAGON, activity=Activity.LEASED)]) == [
        (3, 1, "board pi-a is measuring for job 7"),
        (4, 2, "1 request with higher priority comes first"),
        (5, 1, "board h is leased"),
        (1, 3, "2 requests with higher priority come first"),
        (2, 4, "2 requests with higher priority come first"),
    ]
    assert reasons([request(1), request(2, turn=1)], [busy])[1] == (
        2,
        2,
        "1 request of equal priority comes first",
    )


@pytest.mark.parametrize(
    ("boards", "reason"),
    [
        ([], "no board is of that target"),
        ([board("a", threads=2)], "no board of that target has tag x"),
        ([board("a", tags=("x",))], "no board of that target has 2 threads"),
        ([board("a", tags=("x",)), board("b", threads=2)], "no board has all of the tags and threads"),
        (
            [board("a", threads=2, tags=("x",), health=Health.RETIRED, reason="sold")],
            "all boards of that target are retired: a is retired: sold",
        ),
        (
            [board("a", threads=2, tags=("x",), health=Health.BAD, reason="drift 3.1")],
            "the only board that fits, a, is parked: drift 3.1",
        ),
        (
            [
                board("a", threads=2, tags=("x",), health=Health.MAINTENANCE, reason="new fan"),
                board("b", threads=2, tags=("x",), activity=Activity.OFFLINE),
            ],
            "no board that fits is in service: a is in maintenance: new fan; b is offline",
        ),
        (
            [board("a", threads=2, tags=("x",), health=Health.UNKNOWN, reason="came back")],
            "the only board that fits, a, waits for its health check: came back",
        ),
        (
            [board(id, threads=2, tags=("x",), activity=Activity.MEASURING, job=3) for id in "abcd"],
            "all boards are busy: a is measuring for job 3; b is measuring for job 3; "
            "c is measuring for job 3; and 1 more",
        ),
        ([board("a", threads=2, tags=("x",))], "it starts now"),
    ],
)
def test_the_reason_names_the_board_and_what_is_wrong_with_it(boards, reason):
    ((_, position, told),) = reasons([request(1, threads=2, tags=("x",))], boards)
    assert (position, told[: len(reason)]) == (1, reason)
