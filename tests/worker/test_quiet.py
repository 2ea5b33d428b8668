"""Times on a machine that others use as well: a real process holds the board's CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from kernels.registry import recommendations
from kernels.workload.base import Gemm
from worker.candidate import Candidate
from worker.fleet.drivers.host import NativeBoard
from worker.measure.measure import MeasureOptions, measure
from worker.measure.quiet import Repeats, divider
from worker.measure.session import connect

SHORT, LONG = Gemm(128, 512, 512), Gemm(512, 1024, 1024)
"""Shorter than a turn of the kernel's scheduler, and longer than many."""
FACTOR = 1.5
"""A quiet time is no more than this above another: the rest is caches, clock rates and memory."""


@contextmanager
def busy(cpu):
    """Three processes that want the CPU all the time."""
    code = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nprint(flush=True)\nwhile True: pass"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(3)]
    try:
        for process in running:
            process.stdout.readline()
        yield
    finally:
        for process in running:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("workload", [SHORT, LONG], ids=str)
def test_a_time_is_right_or_said_to_be_disturbed(nursery, builder, host, board, tmp_path, workload):
    built = builder.build(Candidate(workload, recommendations(workload, host)[0], host))

    def run(rounds=0):
        options = MeasureOptions(min_time_s=0.02)
        return measure(nursery, board, [built], options, lock_dir=tmp_path, rounds=rounds)[0]

    alone = min(run().repeats_s)
    with busy(board.cpus[0]):
        outcomes = [run(), run(rounds=5)]
    for outcome in outcomes:
        assert outcome.ok, outcome
        assert outcome.disturbed or outcome.cost_s < FACTOR * alone
    if workload == LONG:  # the others have had their turns in every repeat
        assert all(outcome.disturbed for outcome in outcomes)


def test_a_pool_of_threads_is_disturbed_on_any_of_its_cpus(nursery, builder, host, agent_dir, tmp_path):
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("this machine has one CPU")
    built = builder.build(Candidate(LONG, recommendations(LONG, host, threads=2)[0], host, 2))
    with NativeBoard("pair", cpus=cpus, state_dir=agent_dir) as pair, busy(cpus[1]):
        (outcome,) = measure(nursery, pair, [built], MeasureOptions(min_time_s=0.02), lock_dir=tmp_path)
    assert outcome.ok, outcome
    assert outcome.disturbed


def test_a_busy_machine_costs_a_bounded_time(nursery, builder, host, board, tmp_path):
    built = builder.build(Candidate(LONG, recommendations(LONG, host)[0], host))
    with busy(board.cpus[0]):
        started = time.monotonic()
        (outcome,) = measure(nursery, board, [built], MeasureOptions(min_time_s=0.02), lock_dir=tmp_path)
        spent = time.monotonic() - started
    # The probes, what is missing of the least number, their warm-ups, and no more: each with the others.
    assert outcome.timed_s <= spent
    assert outcome.timed_s < 20 * max(outcome.repeats_s)


def test_only_quiet_repeats_count_where_there_are_enough():
    found = Repeats([3.0, 1.0, 2.0], [9.0])
    assert (found.enough, found.counted, len(found)) == (True, [3.0, 1.0, 2.0], 4)
    found += Repeats([], [8.0])
    assert found.counted == [3.0, 1.0, 2.0]
    few = Repeats([3.0], [9.0, 4.0, 2.0])
    assert (few.enough, few.counted) == (False, [2.0, 3.0, 4.0])
    assert Repeats([5.0]).enough
    assert not Repeats([], [5.0]).enough


def test_a_board_that_tells_nothing_is_believed(board):
    class Silent:
        def get_function(self, name):
            raise AttributeError(name)

    assert divider(Silent())([1.0, 2.0]) == Repeats([1.0, 2.0])
    told = divider(connect(board.address, 20))  # nothing was timed in this session
    assert told([1.0]) == Repeats([1.0])
