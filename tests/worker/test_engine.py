import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import faulty_kernels
import psutil
import pytest
from distributed import Scheduler

import worker.engine.dask_worker
from kernels.float.gemm.kernel import PackedGemm
from kernels.workload.base import Gemm
from worker.batch import Batch
from worker.build.build import Builder
from worker.demand import Demand
from worker.engine.cluster import split_cpus
from worker.engine.engine import Engine, EngineError
from worker.fleet.memory_book import MemoryBook
from worker.fleet.times import FleetTimes
from worker.measure.cores import Cores
from worker.measure.measure import MeasureOptions
from worker.outcome import ErrorKind

OPTIONS = MeasureOptions(min_time_s=0.01, run_timeout_s=10.0)
WORKLOAD = Gemm(24, 64, 64)
pytestmark = pytest.mark.timeout(900)


BUSY = FleetTimes(drift_limit=1000.0, kin_limit=1000.0)
"""What other tests do to a board's time is no sign of its health."""


def embedded(folder, times=BUSY, **more):
    return Engine(folder, preload=["faulty_kernels"], times=times, **more)


def some(target, count, **more):
    space = PackedGemm().space(WORKLOAD, target)
    return Batch(WORKLOAD, random.Random(3).sample(list(space), count), Demand(target), **more)


def kinds(outcomes):
    return [outcome.error for outcome in outcomes]


@pytest.fixture
def folder(agent_dir, tmp_path):
    """A state folder with a built agent: zig's first build takes a minute."""
    for agent in agent_dir.glob("tilefleet-agent-*"):
        (tmp_path / agent.name).hardlink_to(agent)
    return tmp_path


async def test_batches_with_faults_run_at_the_same_time_and_keep_their_order(folder):
    async with embedded(folder, book=(book := MemoryBook())) as engine:
        (board,) = engine.boards()
        assert (board.id, board.activity != "offline", board.clock) == ("host", True, "wall")
        runs = [
            engine.evaluate(some(board.target, 4), OPTIONS),
            engine.evaluate(
                faulty_kernels.batch(
                    board.target, "none", "raises", "segfault", "compiler_crash", "hang", "wrong", "none"
                ),
                OPTIONS,
            ),
            engine.evaluate(some(board.target, 3), OPTIONS),
        ]
        good, mixed, more = await asyncio.gather(*runs)
        assert kinds(good) == [None] * 4
        assert kinds(more) == [None] * 3
        assert kinds(mixed) == [
            None, "build_error", "crash", "build_error", "run_timeout", "wrong_result", None,
        ]  # fmt: skip
        assert all(outcome.toolchain["tvm"] for outcome in mixed)
        while engine.boards()[0].activity != "idle" or engine.boards()[0].health != "good":
            await asyncio.sleep(0.05)  # It is checked for the sake of the endless one.
        used = [usage for _, usage in book.ended.values()]
        assert sum(usage.trials for usage in used) == 12  # What cannot be built needs no board.
        busy_s = sum(usage.busy_s for usage in used)
        assert busy_s == pytest.approx(sum(o.measure_s for o in [*good, *mixed, *more]))
        assert len({outcome.lease for outcome in good}) == 1
        assert good[0].lease > 0

        verified = await engine.evaluate(some(board.target, 3, rounds=3), OPTIONS)
        assert all(len(outcome.repeats_s) >= 9 for outcome in verified)
        peak = await engine.peak_gflops(Demand(board.target))
        best = max(WORKLOAD.flops / outcome.cost_s / 1e9 for outcome in verified)
        assert (best < 2 * peak.value, peak.board) == (True, board.id)


async def test_cancelling_ends_builds_and_measurements_but_nobody_elses(folder):
    async with embedded(folder) as engine:
        target = engine.boards()[0].target
        patient = MeasureOptions(min_time_s=0.01, run_timeout_s=100, build_timeout_s=100)
        for fault in ("compiler_hang", "hang"):
            cancelled = asyncio.Event()
            asyncio.get_running_loop().call_later(1, cancelled.set)
            hanging = faulty_kernels.batch(target, fault, fault, cancelled=cancelled)
            outcomes, others = await asyncio.gather(
                engine.evaluate(hanging, patient),
                engine.evaluate(some(target, 2), OPTIONS),
            )
            assert kinds(outcomes) == [ErrorKind.CANCELLED] * 2
            assert kinds(others) == [None, None]
        task = asyncio.create_task(engine.evaluate(faulty_kernels.batch(target, "hang"), patient))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The board is free again at once.
        assert kinds(await engine.evaluate(some(target, 1), OPTIONS)) == [None]


async def test_what_fits_no_board_says_which_there_are(folder):
    async with embedded(folder) as engine:
        target = engine.boards()[0].target
        other = replace(target, name="other", l2_bytes=1)
        (outcome,) = await engine.evaluate(some(other, 1))
        assert outcome.error == ErrorKind.BOARD_LOST
        assert "no board for target other" in outcome.message
        assert "host" in outcome.message
        with pytest.raises(EngineError, match="99 threads"):
            await engine.peak_gflops(Demand(target, 99))


async def test_closing_leaves_no_process_behind(folder):
    before = set(psutil.Process().children(recursive=True))
    async with embedded(folder) as engine:
        target = engine.boards()[0].target
        task = asyncio.create_task(engine.evaluate(faulty_kernels.batch(target, "hang"), OPTIONS))
        await asyncio.sleep(0.5)
        started = set(psutil.Process().children(recursive=True)) - before
        task.cancel()
    assert started
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not alive


async def test_workers_of_a_shared_scheduler_do_the_same(folder):
    async with Scheduler(
        host="127.0.0.1", port=0, dashboard=False, dashboard_address="127.0.0.1:0"
    ) as scheduler:
        command = [sys.executable, "-m", "worker", "--scheduler", scheduler.address, "--builds", "2"]
        command += ["--board", "far", "--state-dir", str(folder), "--preload", "faulty_kernels"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        worker = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
        try:
            assert b"3 workers joined" in await worker.stdout.readline()
            async with embedded(folder / "client", scheduler=scheduler.address) as engine:
                (board,) = engine.boards()
                assert board.id == "far"
                mixed = await engine.evaluate(
                    faulty_kernels.batch(board.target, "none", "segfault", "raises", "none"), OPTIONS
                )
                assert kinds(mixed) == [None, "crash", "build_error", None]
                assert mixed[0].board == "far"
                cancelled = asyncio.Event()
                asyncio.get_running_loop().call_later(0.5, cancelled.set)
                hanging = faulty_kernels.batch(board.target, "hang", cancelled=cancelled)
                outcomes = await engine.evaluate(hanging, replace(OPTIONS, run_timeout_s=100))
                assert kinds(outcomes) == [ErrorKind.CANCELLED]
        finally:
            worker.terminate()
            assert await asyncio.wait_for(worker.wait(), 120) == 0


async def start_worker(folder, address, workers, name):
    """Add a process that builds and has a board of that name, when it has joined the scheduler."""
    command = [sys.executable, "-m", "worker", "--scheduler", address, "--builds", "1"]
    command += ["--board", name, "--state-dir", str(folder), "--preload", "faulty_kernels"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    workers[name] = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
    assert b"workers joined" in await workers[name].stdout.readline()


@asynccontextmanager
async def far_boards(folder, names, times=BUSY):
    """An engine at a shared scheduler, and the processes by the names of their boards."""
    address, workers = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}, {}
    async with Scheduler(dashboard=False, **address) as scheduler:
        try:
            await asyncio.gather(*(start_worker(folder, scheduler.address, workers, name) for name in names))
            async with embedded(folder / "client", times, scheduler=scheduler.address) as engine:
                yield engine, workers
        finally:
            for worker in workers.values():
                if worker.returncode is None:
                    worker.kill()
                await worker.wait()


async def test_a_killed_measure_worker_loses_nothing_and_its_batch_goes_on_elsewhere(folder):
    async with far_boards(folder, "ab") as (engine, workers):
        target = engine.boards()[0].target
        came = []
        options = replace(OPTIONS, run_timeout_s=20.0)
        task = asyncio.create_task(
            engine.evaluate(
                faulty_kernels.batch(
                    target, "none", "wrong", "hang", "none", on_outcome=lambda *ended: came.append(ended)
                ),
                options,
            )
        )
        while len(came) < 2:
            await asyncio.sleep(0.05)
        killed = came[0][1].board
        workers[killed].kill()
        outcomes = await task
        (left,) = set(workers) - {killed}
        assert kinds(outcomes) == [None, "wrong_result", "run_timeout", None]
        assert [outcome.board for outcome in outcomes] == [killed, killed, left, left]
        assert sorted(place for place, _ in came) == [0, 1, 2, 3]
        assert all(outcome == outcomes[place] for place, outcome in came)
        assert outcomes[3].lease > outcomes[0].lease
        gone = next(board for board in engine.boards() if board.id == killed)
        assert (gone.activity, gone.health) == ("offline", "unknown")


async def test_builds_wait_for_a_worker_that_builds_and_it_is_said(folder):
    async with far_boards(folder, "a") as (engine, workers):
        target = engine.boards()[0].target
        workers["a"].kill()
        await workers["a"].wait()
        waiting = asyncio.create_task(engine.evaluate(some(target, 1), OPTIONS))
        cancelled = asyncio.Event()
        stopped = asyncio.create_task(engine.evaluate(some(target, 2, cancelled=cancelled), OPTIONS))
        while "builds" not in engine.away:
            await asyncio.sleep(0.1)
        cancelled.set()
        assert set(kinds(await stopped)) == {ErrorKind.CANCELLED}
        assert not waiting.done()
        await start_worker(folder, engine._address, workers, "a")
        (outcome,) = await waiting
        # Requests ask for it in threads.
        assert (outcome.ok, await asyncio.to_thread(lambda: engine.away)) == (True, "")


async def test_what_kills_two_workers_is_poison_and_after_the_last_one_nothing_hangs(folder):
    times = replace(BUSY, job_patience_s=8.0, builder_s=8.0)
    async with far_boards(folder, "abc", times) as (engine, workers):
        target = engine.boards()[0].target
        while not all(board.health == "good" for board in engine.boards()):
            await asyncio.sleep(0.05)
        outcomes = await engine.evaluate(
            faulty_kernels.batch(target, "none", "kills_worker", "none"), OPTIONS
        )
        assert kinds(outcomes) == [None, "poison", None], outcomes
        assert "killed 2 workers" in outcomes[1].message
        last = outcomes[2].board
        assert outcomes[0].board != last
        ended = {name for name, worker in workers.items() if worker.returncode is not None}
        assert ended == set(workers) - {last}
        # The last one dies while it measures candidates in turns, and while others are built.
        patient = replace(OPTIONS, run_timeout_s=100.0)
        verified = asyncio.create_task(
            engine.evaluate(faulty_kernels.batch(target, "none", "hang", rounds=7), patient)
        )
        while not any(board.activity == "measuring" for board in engine.boards()):
            await asyncio.sleep(0.05)
        builds = asyncio.create_task(
            engine.evaluate(faulty_kernels.batch(target, *["compiler_hang"] * 3), patient)
        )
        await asyncio.sleep(0.5)
        workers[last].kill()
        for outcome in [*await verified, *await builds]:
            assert outcome.error is ErrorKind.BOARD_LOST, outcome
            assert "offline" in outcome.message or "build worker" in outcome.message
        (again,) = await engine.evaluate(some(target, 1), OPTIONS)
        assert again.error is ErrorKind.BOARD_LOST


async def test_no_build_runs_while_a_board_with_all_cores_is_used(folder, monkeypatch):
    spans = {"build": [], "use": []}

    def timed(kind, function):
        def run(*arguments, **options):
            began = time.monotonic()
            try:
                return function(*arguments, **options)
            finally:
                # The board's check builds for itself.
                if kind == "use" or arguments[1].workload == WORKLOAD:
                    spans[kind].append((began, time.monotonic()))

        return run

    monkeypatch.setattr(Builder, "build", timed("build", Builder.build))
    for name in ("measure", "check_board", "relayout_seconds"):
        monkeypatch.setattr(
            f"worker.engine.dask_worker.{name}", timed("use", getattr(worker.engine.dask_worker, name))
        )

    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[-2:])
    try:
        async with embedded(folder, threads=2) as engine:
            target = engine.boards()[0].target
            space = list(PackedGemm().space(WORKLOAD, target, threads=2))
            demand = Demand(target, 2)
            batches = [Batch(WORKLOAD, space[at : at + 4], demand) for at in range(0, 12, 4)]
            runs = [engine.evaluate(batch, OPTIONS) for batch in batches]
            *found, _ = await asyncio.gather(*runs, engine.relayout_seconds(demand))
            assert [kinds(outcomes) for outcomes in found] == [[None] * 4] * 3
    finally:
        os.sched_setaffinity(0, mine)
    assert len(spans["build"]) == 12
    assert len(spans["use"]) >= 5  # the batches, the board's check, the conversions
    for began, ended in spans["build"]:
        assert not any(start < ended and began < end for start, end in spans["use"])


def test_who_gave_up_does_not_wait_for_cores():
    cores, given_up = Cores([0], [0]), threading.Event()
    given_up.set()
    with cores.measuring(), cores.building(given_up), cores.measuring(given_up):
        pass
    apart = Cores([0], [1])
    with apart.measuring(), apart.building():
        pass


def test_cores_are_shared_out(monkeypatch):
    def cores(*numbers):
        monkeypatch.setattr("os.sched_getaffinity", lambda _: set(numbers))

    cores(0, 1, 2, 3)
    assert split_cpus(1) == ([0, 1, 2], [3])
    assert split_cpus(2) == ([0, 1], [2, 3])
    assert split_cpus(0) == ([0, 1, 2, 3], [])
    cores(5)
    assert split_cpus(1) == ([5], [5])
    cores(4, 6)
    assert split_cpus(2) == ([4, 6], [4, 6])
    cores(5)
    with pytest.raises(EngineError, match="2 threads"):
        split_cpus(2)
