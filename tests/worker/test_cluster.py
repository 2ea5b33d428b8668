"""Several boards of one worker process at a shared scheduler, and boards that are not there."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from distributed import Scheduler

from kernels.float.gemm.kernel import PackedGemm
from kernels.target import Target
from kernels.workload.base import Gemm
from worker.batch import Batch
from worker.demand import Demand
from worker.engine.engine import Engine, EngineError
from worker.fleet.fleet_file import read_fleet
from worker.fleet.states import Activity
from worker.fleet.times import FleetTimes
from worker.measure.measure import MeasureOptions

# In the worker of test_simulated.py: zig makes its C library for a board only once.
pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(900)]

OPTIONS = MeasureOptions(min_time_s=0.01, run_timeout_s=10.0)
FLEET = """
[gateway]
listen = "127.0.0.1:{port}"
[[board]]
id = "here"
kind = "host"
[[board]]
id = "sim"
kind = "simulated"
model = "rpi4-sim"
tags = ["quick", "small"]
[[board]]
id = "gone"
kind = "rpc"
target = "mine"
address = "127.0.0.1:1"
[[board]]
id = "later"
kind = "dial"
target = "mine"
token_file = "token"
[[target]]
name = "mine"
triple = "aarch64-linux-gnu"
cpu = "cortex-a55"
"""


@pytest.fixture
def folder(simulated_dir: Path, agent_dir: Path, tmp_path: Path) -> Path:
    """A state folder with all that is built for the boards."""
    for built in [*simulated_dir.glob("tilefleet-*"), *agent_dir.glob("tilefleet-agent-*")]:
        if not (tmp_path / built.name).exists():
            (tmp_path / built.name).hardlink_to(built)
    (tmp_path / "token").write_text("0123456789abcdef")
    (tmp_path / "fleet.toml").write_text(FLEET.format(port=0))
    return tmp_path


def sample(target: Target, count: int) -> Batch:
    workload = Gemm(24, 64, 64)
    configs = random.Random(3).sample(list(PackedGemm().space(workload, target)), count)
    return Batch(workload, configs, Demand(target))


async def check_boards(engine: Engine) -> None:
    """All four are there, the two that can run do, and the two that cannot do not stand in their way."""
    boards = {board.id: board for board in engine.boards()}
    assert set(boards) == {"here", "sim", "gone", "later"}
    assert {id for id, board in boards.items() if board.activity is Activity.OFFLINE} == {"gone", "later"}
    assert (boards["gone"].reason, boards["later"].reason) == (
        "nothing answers at 127.0.0.1:1",
        "it has not dialed in",
    )
    assert boards["sim"].tags == {"quick", "small"}
    assert boards["sim"].clock.startswith("simulated:rpi4-sim:")
    assert (boards["here"].clock, boards["gone"].target.cpu) == ("wall", "cortex-a55")
    runs = [engine.evaluate(sample(boards[id].target, 2), OPTIONS) for id in ("here", "sim")]
    here, sim = await asyncio.gather(*runs)
    assert [(outcome.error, outcome.board) for outcome in [*here, *sim]] == [
        (None, "here"), (None, "here"), (None, "sim"), (None, "sim"),
    ]  # fmt: skip
    assert {outcome.clock for outcome in sim} == {boards["sim"].clock}


async def test_an_embedded_cluster_runs_a_fleet_file(folder: Path) -> None:
    async with Engine(folder, boards=read_fleet(folder / "fleet.toml")) as engine:
        await check_boards(engine)


async def test_one_worker_process_brings_several_boards_to_a_shared_scheduler(folder: Path) -> None:
    async with Scheduler(
        host="127.0.0.1", port=0, dashboard=False, dashboard_address="127.0.0.1:0"
    ) as scheduler:
        command = [sys.executable, "-m", "worker", "--scheduler", scheduler.address, "--builds", "2"]
        command += ["--fleet", str(folder / "fleet.toml"), "--state-dir", str(folder)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        worker = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
        try:
            assert worker.stdout is not None
            assert b"6 workers joined" in await worker.stdout.readline()
            async with Engine(folder / "client", scheduler=scheduler.address) as engine:
                await check_boards(engine)
        finally:
            worker.terminate()
            assert await asyncio.wait_for(worker.wait(), 120) == 0


async def test_a_board_that_is_tried_again_comes(folder: Path) -> None:
    """The gateway's port is taken at first; everything else is up all the same."""

    blocker = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = blocker.sockets[0].getsockname()[1]
    (folder / "fleet.toml").write_text(FLEET.format(port=port))
    fleet, times = read_fleet(folder / "fleet.toml"), FleetTimes(retry_s=0.1)
    async with Engine(folder, boards=fleet, times=times) as engine:
        async with asyncio.timeout(120):
            while "cannot listen" not in next(b.reason for b in engine.boards() if b.id == "later"):
                await engine.refresh()
                await asyncio.sleep(0.1)
        blocker.close()
        await blocker.wait_closed()
        async with asyncio.timeout(120):
            while True:
                try:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.1)
        writer.write(b"hello\n")
        assert b"this is a gateway" in await asyncio.wait_for(reader.readline(), 120)
        writer.close()


async def test_what_this_machine_lacks_for_a_board_of_its_own_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(EngineError, match=r"board rpi4-sim: .*apt-get install qemu-user.*leave it out"):
        async with Engine(folder, boards=["host", "rpi4-sim"]):
            pytest.fail("it started")
