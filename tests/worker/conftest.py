import fcntl
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import tvm

from kernels import target as targets
from kernels.emit.compile import compile_object
from kernels.target import CATALOGUE
from worker.build.artifacts import ArtifactStore
from worker.build.build import ENTRY, Builder
from worker.build.toolchain import link
from worker.children.nursery import Nursery
from worker.engine.dask_worker import PRELOAD
from worker.fleet.drivers.agent_build import build_agent, build_plugin, host_triple
from worker.fleet.drivers.host import NativeBoard
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.simulated import SimulatedBoard, why_no_emulator
from worker.measure.session import connect

for _folder in ("kernels", "extending"):  # models of requantization, the recipes
    sys.path.insert(0, str(Path(__file__).parents[1] / _folder))


@pytest.fixture(scope="session")
def nursery():
    """One nursery that has TVM and the kernels; the tests share it, as nobody can damage it for others."""
    with Nursery(preload=(*PRELOAD, "faulty_kernels")) as nursery:
        yield nursery


@pytest.fixture(scope="session")
def host(nursery):
    """This machine's target."""
    return targets.from_json(nursery.call("worker.measure.host:host_target_in_child", None, timeout_s=60))


@pytest.fixture(scope="session")
def builder(nursery, tmp_path_factory):
    """Builds into a folder of its own, shared by the session's tests."""
    return Builder(nursery, ArtifactStore(tmp_path_factory.mktemp("artifacts")))


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


@pytest.fixture(scope="session")
def simulated_dir(tmp_path_factory):
    """A folder with the agents and the plugin of the simulated boards; skips where QEMU is missing."""
    problems = [problem for model in sorted(SIM_MODELS) if (problem := why_no_emulator(model))]
    if problems:
        assert os.environ.get("CI") != "true", problems[0]
        pytest.skip(problems[0])
    folder = tmp_path_factory.mktemp("simulated")
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda model: build_agent(SIM_MODELS[model].triple, folder), SIM_MODELS))
    build_plugin(folder)
    return folder


@pytest.fixture(scope="session")
def simulated_boards(simulated_dir):
    """model -> a running board. Tests that use these go to pytest-xdist's worker "simulated"."""
    with ExitStack() as running:
        yield {
            model: running.enter_context(SimulatedBoard(model, state_dir=simulated_dir))
            for model in sorted(SIM_MODELS)
        }


@pytest.fixture
def run_on(tmp_path):
    """What a PrimFunc, called with arrays, leaves in the last of them on a board."""

    def run(board, function, *arrays):
        path = tmp_path / "function.so"
        path.write_bytes(link(compile_object(function, CATALOGUE[board.target])))
        session = connect(board.address, 300)
        session.upload(str(path))
        device, module = session.cpu(0), session.load_module(path.name)
        tensors = [tvm.runtime.tensor(np.ascontiguousarray(array), device) for array in arrays]
        module[ENTRY](*tensors)
        return tensors[-1].numpy()

    return run
