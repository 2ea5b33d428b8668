import fcntl
import os

import pytest

from worker.fleet.agent_build import build_agent, host_triple
from worker.fleet.native import NativeBoard
from worker.nursery import Nursery


@pytest.fixture(scope="session")
def nursery():
    """One nursery that has TVM and the kernels; the tests share it, as nobody can damage it for others."""
    with Nursery() as nursery:
        yield nursery


@pytest.fixture(scope="session")
def agent_dir(tmp_path_factory):
    """A folder with the built agent, for NativeBoard(state_dir=...); shared by pytest-xdist's workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "agent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_agent(host_triple(), folder / "board")
    return folder / "board"


@pytest.fixture(scope="session")
def board(agent_dir):
    """A native board with one thread; candidates may crash it, it comes back."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    cpus = sorted(os.sched_getaffinity(0))
    with NativeBoard(worker, cpus=[cpus[int(worker[2:]) % len(cpus)]], state_dir=agent_dir) as board:
        yield board
