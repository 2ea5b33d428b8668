"""Boards that say what cannot be: nothing of it is believed, and their health check fails."""

import math
import re
import socket
import subprocess
import sys
from contextlib import contextmanager

import faulty_kernels
import pytest

from bench.soak.liar import LIES
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from worker.children.nursery import ChildRaised
from worker.engine.health_check import check_board
from worker.engine.worker_context import WorkerContext
from worker.fleet.drivers.rpc import RpcBoard
from worker.fleet.states import Health, Standing
from worker.measure import plausible
from worker.measure.bandwidth import bandwidth_gbs
from worker.measure.measure import MeasureOptions, measure
from worker.measure.peak import peak_gflops
from worker.measure.relayout_time import relayout_seconds


@contextmanager
def lying(lie):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bench.soak.liar", str(port), lie]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield RpcBoard("liar", "127.0.0.1", int(process.stdout.readline()))
        finally:
            process.kill()


def measured(board, nursery, builder, host, tmp_path):
    built = [builder.build(faulty_kernels.candidate("none", host))]
    (outcome,) = measure(nursery, board, built, MeasureOptions(min_time_s=0.01), lock_dir=tmp_path)
    return outcome


@pytest.mark.parametrize("lie", LIES)
def test_a_time_that_cannot_be_is_no_cost(lie, nursery, builder, host, tmp_path):
    with lying(lie) as board:
        outcome = measured(board, nursery, builder, host, tmp_path)
    assert (outcome.error, outcome.cost_s, outcome.lied) == ("board_lost", None, True)
    assert re.match("board liar: it said that (a call|calls) took ", outcome.message), outcome


def test_a_counter_that_is_no_number_is_no_cost(nursery, builder, host, tmp_path):
    with lying("counters") as board:
        outcome = measured(board, nursery, builder, host, tmp_path)
    assert (outcome.error, outcome.lied) == ("board_lost", True)
    assert "{'a': 1}" in outcome.message


def test_a_broken_sensor_says_nothing_and_times_well(nursery, builder, host, tmp_path):
    with lying("sensors") as board:
        outcome = measured(board, nursery, builder, host, tmp_path)
    assert (outcome.error, outcome.cost_s) == (None, 1e-4)
    assert (outcome.temperature_c, outcome.frequency_mhz) == (None, None)


def test_the_health_check_is_not_passed_by_a_lie(nursery, host, tmp_path):
    with lying("negative") as board:
        check = check_board(WorkerContext(nursery, tmp_path, board, host))
    assert "it said that a call took -5.527e-06 s" in check.problem
    assert check.seconds is None


def test_a_board_that_is_faster_than_any_machine_fails_its_check(nursery, host, tmp_path):
    with lying("fiftieth") as board:
        check = check_board(WorkerContext(nursery, tmp_path, board, host))
    assert "it said that a call took 2e-06 s" in check.problem


def test_a_liar_is_parked_at_once_and_stays_what_operators_made_it():
    assert Standing(Health.GOOD).lied("why") == Standing(Health.BAD, "why")
    assert Standing(Health.MAINTENANCE, "ours").lied("why") == Standing(Health.MAINTENANCE, "ours")


def test_no_real_machine_is_taken_for_a_liar():
    power10, avx512 = CATALOGUE["power10"], CATALOGUE["x86-avx512"]
    assert plausible.least_s(4 * 256e9, power10, 1) < 1  # four times its unit's peak
    assert plausible.least_s(4e9 * 2048, avx512, 1) < 1  # AMX's int8
    assert math.isclose(plausible.least_s(8e9, avx512, 2), plausible.least_s(4e9, avx512, 1))
    # Twice a POWER10 core's outer products, and of AVX-512 all of two units' 5 GHz in Winograd's F(4x4).
    assert plausible.peak(2 * 256.0, power10, 1)
    assert plausible.least_s_of(Conv2d(1, 64, 56, 56, 64, 3, 3, pad=(1, 1, 1, 1)), avx512, 1) < (
        231_211_008 / (4 * 320e9)
    )


@pytest.mark.parametrize(
    ("ask", "lie"), [(peak_gflops, "too_fast"), (bandwidth_gbs, "nan"), (relayout_seconds, "negative")]
)
def test_what_a_board_says_of_itself_is_checked_like_times(ask, lie, nursery, builder, host, tmp_path):
    with lying(lie) as board, pytest.raises(ChildRaised) as raised:
        ask(nursery, board, host, 1, store=builder.store, lock_dir=tmp_path)
    assert raised.value.type_name == "Lie"
    assert "it said that a call took" in raised.value.message
