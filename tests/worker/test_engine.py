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

import worker.shop
from kernels.gemm import PackedGemm
from kernels.workload import Gemm
from worker.build import Builder
from worker.candidate import Candidate
from worker.cluster import split_cpus
from worker.cores import Cores
from worker.engine import Engine, EngineError
from worker.measure import MeasureOptions
from worker.outcome import ErrorKind

OPTIONS = MeasureOptions(min_time_s=0.01, run_timeout_s=10.0)
WORKLOAD = Gemm(24, 64, 64)
pytestmark = pytest.mark.timeout(900)


def embedded(folder, **more):
    return Engine(folder, preload=["faulty_kernels"], **more)


def some(target, count):
    space = PackedGemm().space(WORKLOAD, target)
    return [Candidate(WORKLOAD, config, target) for config in random.Random(3).sample(list(space), count)]


def faulty(target, *faults):
    return [faulty_kernels.candidate(fault, target) for fault in faults]


def kinds(outcomes):
    return [outcome.error for outcome in outcomes]


@pytest.fixture
def folder(agent_dir, tmp_path, monkeypatch):
    """A state folder with a built agent: zig's first build takes a minute. What other tests do to a board's
    time is no sign of its health."""
    monkeypatch.setattr("worker.fleet.health.DRIFT_LIMIT", 1000.0)
    for agent in agent_dir.glob("tilefleet-agent-*"):
        (tmp_path / agent.name).hardlink_to(agent)
    return tmp_path


def test_batches_with_faults_run_at_the_same_time_and_keep_their_order(folder):
    async def scenario():
        async with embedded(folder) as engine:
            (board,) = engine.boards()
            assert (board.id, board.alive, board.clock) == ("host", True, "wall")
            runs = [
                engine.evaluate(some(board.target, 4), OPTIONS),
                engine.evaluate(
                    faulty(
                        board.target, "none", "raises", "segfault", "compiler_crash", "hang", "wrong", "none"
                    ),
                    OPTIONS,
                    priority=1,
                ),
                engine.evaluate(some(board.target, 3), OPTIONS, priority=2),
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
            (board,) = engine.boards()
            assert board.trials == 12  # What cannot be built needs no board.
            assert board.busy_s == pytest.approx(sum(o.measure_s for o in [*good, *mixed, *more]))
            assert len({outcome.lease for outcome in good}) == 1
            assert good[0].lease > 0

            verified = await engine.verify(some(board.target, 3), OPTIONS, rounds=3)
            assert all(len(outcome.repeats_s) >= 9 for outcome in verified)
            peak = await engine.peak_gflops(board.target)
            best = max(WORKLOAD.flops / outcome.cost_s / 1e9 for outcome in verified)
            assert best < 2 * peak

    asyncio.run(asyncio.wait_for(scenario(), 800))


def test_cancelling_ends_builds_and_measurements_but_nobody_elses(folder):
    async def scenario():
        async with embedded(folder) as engine:
            target = engine.boards()[0].target
            patient = MeasureOptions(min_time_s=0.01, run_timeout_s=100, build_timeout_s=100)
            for fault in ("compiler_hang", "hang"):
                cancelled = asyncio.Event()
                asyncio.get_running_loop().call_later(1, cancelled.set)
                hanging = faulty(target, fault, fault)
                outcomes, others = await asyncio.gather(
                    engine.evaluate(hanging, patient, cancelled=cancelled, priority=1),
                    engine.evaluate(some(target, 2), OPTIONS),
                )
                assert kinds(outcomes) == [ErrorKind.CANCELLED] * 2
                assert kinds(others) == [None, None]
            task = asyncio.create_task(engine.evaluate(faulty(target, "hang"), patient))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The board is free again at once.
            assert kinds(await engine.evaluate(some(target, 1), OPTIONS)) == [None]

    asyncio.run(asyncio.wait_for(scenario(), 800))


def test_what_fits_no_board_says_which_there_are(folder):
    async def scenario():
        async with embedded(folder) as engine:
            target = engine.boards()[0].target
            other = replace(target, name="other", l2_bytes=1)
            (outcome,) = await engine.evaluate(some(other, 1))
            assert outcome.error == ErrorKind.BOARD_LOST
            assert "no board for target other" in outcome.message
            assert "host" in outcome.message
            with pytest.raises(EngineError, match="99 threads"):
                await engine.peak_gflops(target, 99)
            with pytest.raises(ValueError, match="one workload"):
                await engine.evaluate([*some(target, 1), *faulty(target, "none")])

    asyncio.run(scenario())


def test_closing_leaves_no_process_behind(folder):
    async def scenario():
        async with embedded(folder) as engine:
            target = engine.boards()[0].target
            task = asyncio.create_task(engine.evaluate(faulty(target, "hang"), OPTIONS))
            await asyncio.sleep(0.5)
            started = psutil.Process().children(recursive=True)
            task.cancel()
        return started

    before = set(psutil.Process().children(recursive=True))
    started = set(asyncio.run(scenario())) - before
    assert started
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not alive


def test_workers_of_a_shared_scheduler_do_the_same(folder):
    async def scenario():
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
                        [*faulty(board.target, "none", "segfault", "raises", "none")], OPTIONS
                    )
                    assert kinds(mixed) == [None, "crash", "build_error", None]
                    assert mixed[0].board == "far"
                    cancelled = asyncio.Event()
                    asyncio.get_running_loop().call_later(0.5, cancelled.set)
                    hanging = faulty(board.target, "hang")
                    outcomes = await engine.evaluate(
                        hanging, replace(OPTIONS, run_timeout_s=100), cancelled=cancelled
                    )
                    assert kinds(outcomes) == [ErrorKind.CANCELLED]
            finally:
                worker.terminate()
                assert await asyncio.wait_for(worker.wait(), 120) == 0

    asyncio.run(asyncio.wait_for(scenario(), 800))


@asynccontextmanager
async def far_boards(folder, names):
    """An engine at a shared scheduler, and the processes by the names of their boards."""

    async def start(scheduler, name):
        command = [sys.executable, "-m", "worker", "--scheduler", scheduler.address, "--builds", "1"]
        command += ["--board", name, "--state-dir", str(folder), "--preload", "faulty_kernels"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        worker = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
        workers[name] = worker
        assert b"workers joined" in await worker.stdout.readline()

    address, workers = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}, {}
    async with Scheduler(dashboard=False, **address) as scheduler:
        try:
            await asyncio.gather(*(start(scheduler, name) for name in names))
            async with embedded(folder / "client", scheduler=scheduler.address) as engine:
                yield engine, workers
        finally:
            for worker in workers.values():
                if worker.returncode is None:
                    worker.kill()
                await worker.wait()


def test_a_killed_measure_worker_loses_nothing_and_its_batch_goes_on_elsewhere(folder):
    async def scenario():
        async with far_boards(folder, "ab") as (engine, workers):
            target = engine.boards()[0].target
            came = []
            options = replace(OPTIONS, run_timeout_s=20.0)
            task = asyncio.create_task(
                engine.evaluate(
                    faulty(target, "none", "wrong", "hang", "none"),
                    options,
                    job=1,
                    on_outcome=lambda place, outcome: came.append((place, outcome)),
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
            assert (gone.alive, gone.health, gone.trials) == (False, "unknown", 2)

    asyncio.run(asyncio.wait_for(scenario(), 800))


def test_what_kills_two_workers_is_poison_and_after_the_last_one_nothing_hangs(folder, monkeypatch):
    monkeypatch.setattr("worker.fleet.dispatcher.PATIENCE_S", 8.0)
    monkeypatch.setattr("worker.crew.BUILDER_S", 8.0)

    async def scenario():
        async with far_boards(folder, "abc") as (engine, workers):
            target = engine.boards()[0].target
            while not all(board.health == "good" for board in engine.boards()):
                await asyncio.sleep(0.05)
            outcomes = await engine.evaluate(faulty(target, "none", "kills_worker", "none"), OPTIONS)
            assert kinds(outcomes) == [None, "poison", None], outcomes
            assert "killed 2 workers" in outcomes[1].message
            last = outcomes[2].board
            assert outcomes[0].board != last
            ended = {name for name, worker in workers.items() if worker.returncode is not None}
            assert ended == set(workers) - {last}
            # The last one dies while it measures candidates in turns, and while others are built.
            patient = replace(OPTIONS, run_timeout_s=100.0)
            verified = asyncio.create_task(engine.verify(faulty(target, "none", "hang"), patient))
            while not any(board.activity == "measuring" for board in engine.boards()):
                await asyncio.sleep(0.05)
            builds = asyncio.create_task(engine.evaluate(faulty(target, *["compiler_hang"] * 3), patient))
            await asyncio.sleep(0.5)
            workers[last].kill()
            for outcome in [*await verified, *await builds]:
                assert outcome.error is ErrorKind.BOARD_LOST, outcome
                assert "offline" in outcome.message or "build worker" in outcome.message
            (again,) = await engine.evaluate(some(target, 1), OPTIONS)
            assert again.error is ErrorKind.BOARD_LOST

    asyncio.run(asyncio.wait_for(scenario(), 800))


def test_no_build_runs_while_a_board_with_all_cores_is_used(folder, monkeypatch):
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
        monkeypatch.setattr(f"worker.shop.{name}", timed("use", getattr(worker.shop, name)))

    async def scenario():
        async with embedded(folder, threads=2) as engine:
            target = engine.boards()[0].target
            space = list(PackedGemm().space(WORKLOAD, target, threads=2))
            candidates = [Candidate(WORKLOAD, config, target, 2) for config in space[:12]]
            batches = [engine.evaluate(candidates[at : at + 4], OPTIONS) for at in range(0, 12, 4)]
            *found, _ = await asyncio.gather(*batches, engine.relayout_seconds(target, 2))
            assert [kinds(outcomes) for outcomes in found] == [[None] * 4] * 3

    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[-2:])
    try:
        asyncio.run(asyncio.wait_for(scenario(), 800))
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
