"""The database goes away, or the disk is full, under a job: it waits, says why, and goes on by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from databases import new_database, started
from fleet_accounts import JOB_S, Job, layer

from bench.soak.servers import Postgres
from bench.soak.world import Service, World, wait_for
from kernels.workload.base import to_json
from worker.fleet.times import FleetTimes

pytestmark = [pytest.mark.xdist_group("outages"), pytest.mark.timeout(900)]
TIMES = FleetTimes(lease_s=6.0, renew_s=2.0)
"""So short that a lease ends during an outage."""


@pytest.fixture
def postgres_server() -> Iterator[Postgres]:
    """A server that the test may stop."""
    with started(Postgres) as server:
        yield server


@pytest.fixture
def small_disk(world: World) -> Iterator[Path]:
    """A folder on a disk of its own, which is soon full."""
    folder = world.home / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(file: Path) -> None:
    """Write until the disk has not a byte left."""
    with file.open("wb", buffering=0) as stuffing, suppress(OSError):
        while stuffing.write(os.urandom(1 << 12)):
            pass


def whole(job: Job) -> Any:
    """Assert that a job was done with every trial stored and told once, and that none failed."""
    ended = job.wait()
    records = job.records()
    assert (ended.state, ended.trials, ended.failed) == ("done", job.trials, 0), ended
    assert len({record.identity for record in records}) == len(records) == job.trials
    assert sorted(each["number"] for each in job.told) == list(range(job.trials))
    return ended


def test_a_job_goes_on_when_the_database_is_back(world: World, postgres_server: Postgres) -> None:
    url = new_database(postgres_server.url)
    service = Service(world, name="away", times=TIMES, TILEFLEET_DATABASE_URL=url)
    service.wait_good("host")
    job = Job(service, "host", layer(81), 20)
    job.measured(4)
    postgres_server.stop(signal.SIGQUIT)
    time.sleep(2 * TIMES.lease_s)
    path = f"{service.client.url}/api/v1/jobs/{job.id}"
    assert httpx.get(path, timeout=60).status_code == 503
    postgres_server.start()
    whole(job)

    cancelled = Job(service, "host", layer(82), 400)
    cancelled.measured(2)
    postgres_server.stop(signal.SIGQUIT)
    answer = httpx.post(f"{service.client.url}/api/v1/jobs/{cancelled.id}/cancel", timeout=60)
    assert (answer.status_code, "is being cancelled" in answer.json()["detail"]) == (503, True), answer.text
    postgres_server.start()
    assert cancelled.wait().state == "cancelled"
    service.stop()


def test_a_job_goes_on_when_the_disk_has_room_again(world: World, small_disk: Path) -> None:
    service = Service(world, name="small", times=TIMES)
    service.wait_good("host")
    job = Job(service, "host", layer(83), 20)
    job.measured(4)
    stuffing = small_disk / "stuffing"
    fill(stuffing)
    why = wait_for(lambda: service.client.job(job.id).message, JOB_S)
    assert f"the disk with {small_disk} is full" in why
    body = {"workload": to_json(layer(84)), "target": "host", "budget": {"trials": 400}}
    refused = None
    for _ in range(50):  # what of it fits into the files that are there is taken
        refused = httpx.post(f"{service.client.url}/api/v1/jobs", json=body, timeout=60)
        if refused.status_code != 201:
            break
    assert refused is not None
    assert (refused.status_code, str(small_disk) in refused.json()["detail"]) == (507, True), refused.text
    others = [each.id for each in service.client.jobs() if each.id != job.id]
    for other in others:
        assert service.client.cancel(other).state in ("cancelling", "cancelled")
    stuffing.unlink()
    assert "is full" not in whole(job).message
    for other in others:
        wait_for(lambda other=other: service.client.job(other).state == "cancelled", JOB_S)
    service.stop()
