import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dialing
import faulty_kernels
import pytest

from kernels.float.gemm.kernel import PackedGemm
from kernels.registry import recommendations
from kernels.workload.base import RELU, Attention, Conv2d, Epilogue, Gemm, MatMul, View
from worker.candidate import Candidate
from worker.fleet.drivers.rpc import RpcBoard
from worker.measure.measure import MeasureOptions, measure
from worker.outcome import ErrorKind

OPTIONS = MeasureOptions(min_time_s=0.01, run_timeout_s=10.0)


@pytest.fixture
def run(nursery, board, tmp_path):
    def run(built, options=OPTIONS, **more):
        return measure(nursery, more.pop("on", board), built, options, lock_dir=tmp_path, **more)

    return run


def faulty(builder, host, *faults):
    return [builder.build(faulty_kernels.candidate(fault, host)) for fault in faults]


def test_a_correct_candidate_gets_a_cost(run, builder, host, board):
    (outcome,) = run(faulty(builder, host, "none"))
    assert outcome.error is None, outcome
    assert 0 < outcome.cost_s < 0.1
    assert outcome.cost_s == pytest.approx(statistics.median(outcome.repeats_s))
    assert outcome.max_error < 1e-5
    assert (outcome.board, outcome.cold, outcome.clock) == (board.id, True, "wall")
    assert outcome.measure_s > 0
    assert outcome.toolchain["llvm"]


def test_products_of_activations_are_measured_warm(run, builder, host):
    rows = View((5 * 64, 16), 64, 1)
    for workload in (
        MatMul((3,), 5, 16, 7, View((35,), 7, 1), View((112,), 1, 7), View((80,), 16, 1)),
        Attention((2, 4), 5, 5, 16, 16, rows, rows.turned, rows, rows, View((0, 0), 5, 1), scale=0.25),
    ):
        configs = recommendations(workload, host)
        (outcome,) = run([builder.build(Candidate(workload, config, host)) for config in configs])
        assert outcome.error is None, outcome
        assert 0 < outcome.cost_s < 0.1


def test_a_candidate_is_timed_for_the_wanted_time_and_few_repeats_are_kept(run, builder, host):
    (outcome,) = run(faulty(builder, host, "none"), MeasureOptions(min_time_s=0.2))
    assert 0.2 <= outcome.timed_s < outcome.measure_s
    assert len(outcome.repeats_s) == 50  # of some hundred thousand
    assert outcome.counters == {}


def test_outcomes_are_told_as_they_come(run, builder, host):
    told = []
    outcomes = run(
        faulty(builder, host, "wrong", "segfault", "none"), on_outcome=lambda *one: told.append(one)
    )
    assert told == list(enumerate(outcomes))


def test_each_fault_ends_as_its_own_kind_and_the_others_go_on(run, builder, host):
    faults = ["none", "segfault", "wrong", "hang", "unwritten", "none"]
    outcomes = run(faulty(builder, host, *faults))
    kinds = [outcome.error for outcome in outcomes]
    assert kinds == [None, "crash", "wrong_result", "run_timeout", "wrong_result", None], outcomes
    assert "SIGSEGV" in outcomes[1].message
    assert "largest error" in outcomes[2].message
    assert "never written" in outcomes[4].message


@pytest.mark.parametrize(
    "workload",
    [
        Gemm(5, 48, 20, epilogue=Epilogue(bias=True, residual=True, clamp=RELU)),
        Conv2d(1, 8, 9, 9, 16, 3, 3, pad=(1, 1, 1, 1), epilogue=Epilogue(bias=True, clamp=RELU)),
    ],
    ids=str,
)
def test_inputs_follow_the_workload(run, builder, host, workload):
    batch = [builder.build(Candidate(workload, c, host)) for c in recommendations(workload, host)]
    assert [outcome.message for outcome in run(batch)] == [""] * len(batch)


def test_what_is_far_behind_the_best_is_repeated_less(run, builder, host):
    batch = faulty(builder, host, "none")
    (known,) = run(batch)
    (behind,) = run(batch, MeasureOptions(min_time_s=0.01, best_s=known.cost_s / 1000))
    assert len(behind.repeats_s) == 1 < len(known.repeats_s)


def test_cold_weights_cost_time(run, builder, host):
    workload = Gemm(1, 512, 512)  # One pass over 1 MiB of weights: as cold as can be.
    batch = [builder.build(Candidate(workload, PackedGemm().recommend(workload, host), host))]
    cold, warm = (run(batch, MeasureOptions(cold=cold))[0] for cold in (True, False))
    assert (cold.cold, warm.cold) == (True, False)
    assert min(warm.repeats_s) < min(cold.repeats_s)


def test_verifying_takes_turns_and_reports_what_fails(run, builder, host):
    outcomes = run(faulty(builder, host, "none", "segfault", "none"), rounds=4)
    assert [outcome.error for outcome in outcomes] == [None, "crash", None]
    assert min(len(outcome.repeats_s) for outcome in (outcomes[0], outcomes[2])) >= 4 * 3


def test_a_board_that_dies_in_between_is_started_again(run, builder, host, board):
    batch = faulty(builder, host, "none", "hang", "none")
    killer, starts = threading.Timer(0.5, board.restart), board.starts
    outcomes = run(batch, on_outcome=lambda number, _: killer.start() if number == 0 else None)
    killer.join()
    assert [outcome.error for outcome in outcomes] == [None, ErrorKind.RUN_TIMEOUT, None]
    assert board.starts > starts


def test_a_board_that_is_not_there_is_lost(run, builder, host):
    nowhere = RpcBoard("nowhere", "127.0.0.1", 1)
    outcomes = run(faulty(builder, host, "none", "none"), on=nowhere)
    assert [outcome.error for outcome in outcomes] == [ErrorKind.BOARD_LOST] * 2
    assert "nowhere" in outcomes[0].message


def test_a_cancelled_measurement_keeps_what_it_has(run, builder, host):
    cancelled = threading.Event()
    batch = faulty(builder, host, "none", "hang", "none")
    options = MeasureOptions(min_time_s=0.01, run_timeout_s=200)
    outcomes = run(batch, options, cancelled=cancelled, on_outcome=lambda *_: cancelled.set())
    assert [outcome.error for outcome in outcomes] == [None, ErrorKind.CANCELLED, ErrorKind.CANCELLED]


def test_two_at_once_take_turns_on_one_board(run, builder, host):
    batch = faulty(builder, host, "none")
    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(lambda _: run(batch)[0], range(3)))
    assert [outcome.error for outcome in outcomes] == [None] * 3


def test_tvms_own_server_is_a_board_too(run, builder, host, stock_board):
    outcomes = run(faulty(builder, host, "none", "wrong"), on=stock_board)
    assert [outcome.error for outcome in outcomes] == [None, ErrorKind.WRONG_RESULT], outcomes
    assert outcomes[0].cost_s > 0


@pytest.fixture
def stock_board():
    port = dialing.free_port()
    ports = ["--port", str(port), "--port-end", str(port + 1)]
    command = [sys.executable, "-m", "tvm.exec.rpc_server", "--host", "127.0.0.1", "--key", "stock", *ports]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        end = time.monotonic() + 240
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert time.monotonic() < end
            time.sleep(0.05)
        yield RpcBoard("stock", "127.0.0.1", port)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_large_workloads_get_more_time_than_small_ones():
    small, large = Gemm(1, 8, 8), Conv2d(1, 4, 8192, 4096, 4, 3, 3)
    assert OPTIONS.patience(small) == pytest.approx(OPTIONS.run_timeout_s, rel=0.01)
    # A gigabyte in and out.
    assert OPTIONS.patience(large) > OPTIONS.run_timeout_s + 20
