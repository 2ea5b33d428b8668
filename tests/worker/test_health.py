"""The health check against real boards, and the judgement of its time."""

import os

import faulty_kernels
import psutil
import pytest

from kernels.space import Config
from worker.engine import health_check as health
from worker.engine.health_check import check_board, judge
from worker.engine.worker_context import WorkerContext
from worker.fleet.book import Check, Entry
from worker.fleet.drivers.host import NativeBoard
from worker.fleet.drivers.rpc import RpcBoard
from worker.fleet.states import Standing
from worker.fleet.times import USUAL
from worker.measure.session import GREETING_S


@pytest.fixture
def context(nursery, board, host, tmp_path):
    return WorkerContext(nursery, tmp_path, board, host)


def test_a_good_board_passes_and_its_time_is_its_own(context):
    first, second = [], []
    for _ in range(20):  # anything may run beside this test, but not for ever
        for checks in (first, second):
            check = check_board(context)
            assert (check.problem, check.artifact != "") == ("", True)
            checks.append(check)
        times = [min(check.seconds for check in checks) for checks in (first, second)]
        if times[1] / times[0] == pytest.approx(1, rel=0.5):
            break
    assert times[1] / times[0] == pytest.approx(1, rel=0.5)
    assert len({check.artifact for check in [*first, *second]}) == 1
    assert 1e-5 < times[0] < 0.1


def test_a_frozen_board_ends_the_check_and_is_restarted(nursery, agent_dir, host, tmp_path):
    with NativeBoard("frozen", cpus=[min(os.sched_getaffinity(0))], state_dir=agent_dir) as board:
        context = WorkerContext(nursery, tmp_path, board, host)
        assert check_board(context).problem == ""
        (agent,) = [child for child in psutil.Process().children() if "frozen" in child.cmdline()]
        agent.suspend()
        check = check_board(context)
        assert f"no session within {GREETING_S:g} s" in check.problem
        assert check.seconds is None
        assert check_board(context).problem == ""


def test_a_board_that_is_not_there_fails(nursery, host, tmp_path):
    check = check_board(WorkerContext(nursery, tmp_path, RpcBoard("nowhere", "127.0.0.1", 1), host))
    assert "no session" in check.problem


def test_a_wrong_result_fails(context, monkeypatch):
    monkeypatch.setattr(health, "REFERENCE", faulty_kernels.WORKLOAD)
    monkeypatch.setattr(health, "recommendations", lambda *_: [Config.of("faulty", fault="wrong")])
    check = check_board(context)
    assert "ended as wrong_result" in check.problem


GOOD = Check(1e-3, artifact="a")


@pytest.mark.parametrize(
    ("check", "reference_s", "artifact", "clock", "problem"),
    [
        (GOOD, None, "", "wall", ""),
        (GOOD, 1e-3 / 2, "a", "wall", ""),
        (GOOD, 0.99e-3 / 2, "a", "wall", "2.0 times its best"),
        (GOOD, 2.9e-3, "a", "wall", ""),
        (GOOD, 3.1e-3, "a", "wall", "3.1 times less than its best of 3.1 ms"),
        (GOOD, 1e-9, "another", "wall", ""),
        (GOOD, 1e-3, "a", "simulated:x", ""),
        (GOOD, 1e-3 * (1 + 2**-52), "a", "simulated:x", "always gave"),
        (Check(None, "dead", "a"), 1e-3, "a", "wall", "dead"),
    ],
)
def test_judgement(check, reference_s, artifact, clock, problem):
    entry = Entry(Standing(), reference_s=reference_s, reference_artifact=artifact)
    judged = judge(check, "mine", entry, clock, USUAL)
    assert problem in judged.problem
    assert bool(judged.problem) == bool(problem)


@pytest.mark.parametrize(
    ("others", "clock", "differ"),
    [
        ([], "wall", 0),
        ([2.9e-3], "wall", 0),
        ([50e-3], "wall", 1),  # a liar is far faster than its kind
        ([0.2e-3], "wall", 1),
        ([50e-3, 50e-3], "wall", 2),
        ([0.02e-3, 1e-3], "wall", 0),  # of three the two that agree are right
        ([50e-3, 1e-3], "wall", 0),
        ([50e-3, 0.1e-3, 1e-3], "wall", 2),
        ([1e-3, 1e-3], "simulated:x", 0),
        ([1e-3 * (1 + 2**-52)], "simulated:x", 1),
    ],
)
def test_a_board_is_judged_by_its_kind_too(others, clock, differ):
    kin = [("mine", "a", 1.0), ("old", "b", 1.0), *((f"k{n}", "a", each) for n, each in enumerate(others))]
    judged = judge(GOOD, "mine", Entry(Standing(), kin=tuple(kin)), clock, USUAL)
    assert (f"on {differ} of {len(others)} other boards" in judged.problem) == bool(differ), judged.problem
    assert bool(judged.problem) == bool(differ)
