"""Candidates and clients at their worst, on a native board and on an emulated one."""

import os
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
import tvm
from candidates import BEYOND_C, CHATTY_C, MACHINE, SPIN_C, c_candidate, connect, load, on_board
from dialing import all_gone, wait_until
from test_agent import handshake

from worker.children.nursery import ChildRaised
from worker.fleet.drivers.host import NativeBoard
from worker.fleet.drivers.simulated import SimulatedBoard, why_no_emulator

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(1200)]
MEMORY_MB = 512


@pytest.fixture(scope="module", params=["native", "rpi4-sim"])
def served(request, agent_dir):
    """(a board, its processor) with little memory for a session."""
    if request.param == "native":
        with NativeBoard("hygiene", state_dir=agent_dir, threads=1, memory_mb=MEMORY_MB) as board:
            yield board, MACHINE
        return
    if problem := why_no_emulator(request.param):
        assert os.environ.get("CI") != "true", problem
        pytest.skip(problem)
    model = request.param
    with SimulatedBoard(model, id="hygiene-sim", state_dir=agent_dir, memory_mb=MEMORY_MB) as board:
        yield board, "aarch64"


def agent_of(board):
    (agent,) = [child for child in psutil.Process().children() if board.id in child.cmdline()]
    return agent


def works(board):
    a, b = on_board(connect(board), np.ones(8, "float32"), np.zeros(8, "float32"))
    a.copyto(b)
    return bool((b.numpy() == 1).all())


def test_gigabytes_of_output_go_nowhere(served, tmp_path, agent_dir):
    board, machine = served
    session = connect(board, timeout=60)
    load(session, c_candidate(tmp_path, CHATTY_C, machine))["main"]()
    assert (agent_dir / f"board-{board.id}.log").stat().st_size < 1 << 16
    del session
    assert works(board)


def test_writing_beyond_its_tensors_harms_nobody_else(served, tmp_path):
    board, machine = served
    session, starts = connect(board, timeout=20), board.starts
    (out,) = on_board(session, np.zeros(16, "float32"))
    serving = agent_of(board).children()
    # An emulator has its own memory in reach of what it runs: overwritten, it may also stand still.
    ends = r"signal 11 \(SIGSEGV\)" + (
        r"|the session's 20 s are over" if isinstance(board, SimulatedBoard) else ""
    )
    with pytest.raises(tvm.error.RPCError, match=ends):
        load(session, c_candidate(tmp_path, BEYOND_C, machine))["main"](out)
    assert works(board)
    assert all_gone(serving)
    assert board.starts == starts


def test_more_memory_than_allowed_is_refused(served):
    board, _ = served
    session = connect(board, timeout=60)
    small = tvm.runtime.empty((64 << 20,), "int8", session.cpu(0))
    with pytest.raises(tvm.error.RPCError, match="out of memory: a tensor"):
        tvm.runtime.empty((4 << 30,), "int8", session.cpu(0))
    del small, session
    assert works(board)


def test_an_upload_that_is_cut_leaves_nothing_behind(served):
    board, _ = served
    agent = agent_of(board)
    with handshake(board) as peer:
        wait_until(agent.children)
        serving = agent.children()
        peer.sendall(struct.pack("<Qi", 1 << 24, 9) + bytes(1 << 16))  # of 16 MiB
        time.sleep(0.1)
    assert all_gone(serving)
    assert works(board)


def test_a_killed_agent_takes_its_spinning_candidate_along(served, tmp_path, nursery):
    board, machine = served
    payload = {"address": board.address, "path": str(c_candidate(tmp_path, SPIN_C, machine))}
    agent, starts = agent_of(board), board.starts
    with ThreadPoolExecutor() as pool:
        client = pool.submit(nursery.call, "board_clients:run_main", payload, timeout_s=600)
        wait_until(agent.children)
        time.sleep(0.5)
        spinning = agent.children()
        agent.kill()
        assert all_gone(spinning)
        with pytest.raises(ChildRaised):
            client.result()
    wait_until(lambda: board.starts > starts)
    assert works(board)
