"""Two coordinators share a scheduler, a book and two boards; the scheduler and a coordinator go away."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from subprocess import Popen

import psutil
import pytest
from fleet_accounts import JOB_S, Job, database, exclusive, layer, settled

from bench.soak.fleet_file import free_port
from bench.soak.world import START_S, Service, World, wait_for
from worker.demand import Demand
from worker.engine.engine import Engine
from worker.fleet.times import USUAL

GIVEN_UP_S = 10
"""After so long Dask's client would stay away by itself; before, it would come back deaf."""
_FRESH = count(13)
"""Layers that no job had: what is known is not measured again, also where a test is tried once more."""
pytestmark = [pytest.mark.xdist_group("shared"), pytest.mark.timeout(900)]


@dataclass
class Shared:
    """What the coordinators have in common."""

    world: World
    scheduler: str
    scheduling: Popen[bytes]
    workers: dict[str, Popen[bytes]]
    here: Service
    there: Service


def start_scheduler(world: World, address: str) -> Popen[bytes]:
    """A scheduler at an address; returns when it answers."""
    host, _, port = address.removeprefix("tcp://").partition(":")
    log = f"scheduler-{time.time_ns()}.log"
    dask = (sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", host, "--port", port)
    process = world.start(*dask, "--no-dashboard", log=log)
    wait_for(lambda: "Scheduler at" in world.said(log), START_S, why=lambda: world.said(log))
    return process


def start_worker(world: World, scheduler: str, board: str) -> Popen[bytes]:
    """A worker that offers a board and builds; returns when it has joined."""
    state = world.home / f"worker-{board}"
    state.mkdir(exist_ok=True)
    log = f"{state.name}-{time.time_ns()}.log"
    command = (sys.executable, "-m", "worker", "--scheduler", scheduler, "--board", board)
    process = world.start(*command, "--state-dir", state, log=log)
    wait_for(lambda: "joined" in world.said(log), START_S, lambda: world.said(log))
    return process


@pytest.fixture(scope="module")
def shared(world: World) -> Iterator[Shared]:
    """A scheduler, two boards of one kind, which are this machine, and two coordinators."""
    scheduler = f"tcp://127.0.0.1:{free_port()}"
    scheduling = start_scheduler(world, scheduler)
    settings = {
        "TILEFLEET_DATABASE_URL": f"sqlite:///{world.home / 'book.sqlite3'}",
        "TILEFLEET_SCHEDULER": scheduler,
    }
    with ThreadPoolExecutor() as pool:  # importing is what takes so long
        workers = {board: pool.submit(start_worker, world, scheduler, board) for board in ("one", "two")}
        services = [pool.submit(Service, world, name=name, **settings) for name in ("here", "there")]
    here, there = [service.result() for service in services]
    started = {board: worker.result() for board, worker in workers.items()}
    shared = Shared(world, scheduler, scheduling, started, here, there)
    for service in (shared.here, shared.there):
        service.wait_good("one", "two")
    yield shared
    shared.here.stop()
    shared.there.stop()


def test_jobs_go_on_when_a_killed_scheduler_is_back(shared: Shared) -> None:
    jobs = [Job(service, "host", layer(next(_FRESH)), 40) for service in (shared.here, shared.there)]
    for away_s in (1.0, GIVEN_UP_S + 2):
        marks = [len(job.told) + 3 for job in jobs]
        for job, mark in zip(jobs, marks, strict=True):
            job.measured(mark)
        shared.scheduling.kill()
        shared.scheduling.wait()
        for job in jobs:
            wait_for(lambda job=job: shared.scheduler in job.service.client.job(job.id).message)
        wait_for(lambda: {board.activity for board in shared.here.client.boards()} == {"offline"})
        time.sleep(away_s)
        shared.scheduling = start_scheduler(shared.world, shared.scheduler)
    settled(*jobs)
    assert all(worker.poll() is None for worker in shared.workers.values()), "they join again by themselves"
    for job in jobs:
        assert "does not answer" not in job.service.client.job(job.id).message
        for board in shared.workers:
            assert {event.kind for event in job.history(board)}.isdisjoint({"fault", "bad_check"})


async def test_what_runs_beside_a_board_is_run_again_when_the_scheduler_is_back(
    shared: Shared, tmp_path: Path
) -> None:
    """As the check of a built model is, at a job's end."""
    here = next(board for board in shared.here.client.boards() if board.id == "one")
    calls = tmp_path / "calls"
    steady = replace(USUAL, drift_limit=1000.0, kin_limit=1000.0)  # other tests run beside it
    async with Engine(tmp_path, scheduler=shared.scheduler, times=steady) as engine:
        (target,) = {board.target for board in engine.boards() if board.id == here.id}
        beside = asyncio.create_task(
            engine.beside(
                "fleet_accounts:first_waits",
                {"calls": str(calls)},
                Demand(target),
                cancelled=asyncio.Event(),
                timeout_s=JOB_S,
                memory_bytes=4 << 30,
            )
        )
        await asyncio.to_thread(wait_for, lambda: calls.exists() or beside.done(), JOB_S, engine.boards)
        assert not beside.done(), beside
        shared.scheduling.kill()
        await asyncio.to_thread(wait_for, lambda: engine.away)
        shared.scheduling = await asyncio.to_thread(start_scheduler, shared.world, shared.scheduler)
        answer = await beside
    assert answer is not None
    assert (answer.problem, answer.result) == ("", 2)


def test_a_coordinator_that_sleeps_through_its_lease_records_nothing_under_it(shared: Shared) -> None:
    sleepers = [Job(shared.here, "host", layer(next(_FRESH)), 24)]
    # Where the other coordinator took the job, its trials are not heard here: below, it gets a successor.
    wait_for(lambda: len(sleepers[0].told) >= 4 or shared.here.client.job(sleepers[0].id).ended, JOB_S)
    process = psutil.Process(shared.here.process.pid)

    def held() -> set[str]:
        # A job that was queued while its coordinator was stopped may have become the other one's.
        return {lease["board"] for lease in _leases_of(process, sleepers[-1])}

    def asleep() -> set[str]:
        if not held():
            if shared.here.client.job(sleepers[-1].id).ended:  # it was never caught: another one
                sleepers.append(Job(shared.here, "host", layer(next(_FRESH)), 24))
            return set()
        process.suspend()
        if not _locked(shared) and not _ended_lately(sleepers[-1]) and (kept := held()):
            return kept
        process.resume()
        return set()

    # A lease ends as expired when its board is wanted: the other job shall have no other board.
    free = {"one", "two"} - wait_for(asleep, JOB_S)
    sleeper, slept = sleepers[-1], time.time()
    try:
        for board in free:
            shared.there.client.change_board(board, "park", "the other board shall be wanted")
        slept_on = shared.there.client.job(sleeper.id).trials
        other = Job(shared.there, "host", layer(next(_FRESH)), 24)
        ended = other.wait()
        lost = [lease for lease in exclusive(shared.there) if lease["state"] == "expired"]
        mine = [lease for lease in lost if lease["job"] == sleeper.id]
        assert mine, (sleeper.id, free, slept, ended, [dict(lease) for lease in exclusive(shared.there)])
    finally:
        process.resume()
        for board in free:
            shared.there.client.change_board(board, "return")
    settled(*sleepers, other, leases_lost=True)
    measured = sum(1 + record.remeasured for record in sleeper.records())
    mine = [lease for lease in exclusive(shared.here) if lease["job"] == sleeper.id]
    assert measured == slept_on + sum(lease["trials"] for lease in mine if lease["started"] > slept)


def _leases_of(coordinator: psutil.Process, job: Job) -> list[sqlite3.Row]:
    """The leases that a coordinator has now for a job."""
    active = [lease for lease in exclusive(job.service) if lease["state"] == "active"]
    return [each for each in active if each["job"] == job.id and f"/{coordinator.pid}/" in each["holder"]]


def _ended_lately(job: Job) -> bool:
    """Whether some of what was measured under a lease that is over may still have to be saved."""
    ends = [lease["ended"] for lease in exclusive(job.service) if lease["job"] == job.id and lease["ended"]]
    return bool(ends) and time.time() - max(ends) < 1


def _locked(shared: Shared) -> bool:
    """Whether a coordinator was stopped while it wrote to the database."""
    try:
        with closing(sqlite3.connect(database(shared.here), timeout=0.5)) as db:
            db.execute("begin immediate")
            db.rollback()
    except sqlite3.OperationalError:
        return True
    return False
