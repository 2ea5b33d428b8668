"""The coordinator itself is killed, and a board on which all depends goes away."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from fleet_accounts import Job, caught, exclusive, layer, settled

from bench.soak.fleet_file import free_port, write_fleet
from bench.soak.world import Service, World, session, wait_for
from kernels.workload.base import to_json
from worker.fleet.times import FleetTimes

pytestmark = [pytest.mark.xdist_group("coordinator"), pytest.mark.timeout(900)]


PATIENCE_S = 8.0
"""How long whoever is waited for waits for a board, unlike a job."""


@pytest.fixture(scope="module")
def lonely_port() -> int:
    """Where the only board of its kind listens."""
    return free_port()


@pytest.fixture(scope="module")
def service(world: World, lonely_port: int) -> Iterator[Service]:
    """This machine, and a board that is the only one of its kind."""
    world.start_agent("lonely", lonely_port)
    lonely = {"id": "lonely", "kind": "agent", "target": "rare", "address": f"127.0.0.1:{lonely_port}"}
    lonely["token_file"] = str(world.home / "lonely.token")
    fleet = write_fleet(world.home / "fleet.toml", [{"id": "host", "kind": "host"}, lonely])
    book = f"sqlite:///{world.home / 'book.sqlite3'}"
    service = Service(
        world,
        "--fleet",
        fleet,
        times=FleetTimes(patience_s=PATIENCE_S, lease_s=300.0, renew_s=75.0),
        TILEFLEET_DATABASE_URL=book,
    )
    service.wait_good("host", "lonely")
    yield service
    service.stop()


def test_a_killed_coordinator_goes_on_where_it_was(service: Service) -> None:
    job = Job(service, "host", layer(8), 20)
    job.measured(5)
    caught(job, "host", lambda: psutil.Process(service.process.pid))
    tree = service.tree()
    service.process.kill()
    service.process.wait()
    service.world.assert_gone(tree)

    service.start()
    left = service.client.job(job.id)
    assert left.state in ("queued", "running"), "nobody has to resume it"
    kept = {json.dumps(record.config.to_json(), sort_keys=True) for record in job.records()}
    assert {json.dumps(each["config"], sort_keys=True) for each in job.told} <= kept
    wait_for(lambda: service.client.job(job.id).trials > left.trials)
    settled(job, leases_lost=True)
    dead = [lease for lease in exclusive(service) if lease["state"] == "expired"]
    assert len(dead) == 1
    assert dead[0]["ended"] < dead[0]["expires"], "a dead holder's lease is over at once"


def test_jobs_that_run_and_wait_go_on_after_a_stop_and_a_start(service: Service) -> None:
    jobs = [
        service.client.submit(target=target, workload=to_json(layer(11 + at)), trials=3, strategy="random")
        for at, target in enumerate(["host", "host", "host", "rare"])
    ]
    wait_for(lambda: any(service.client.job(job.id).trials for job in jobs))
    service.stop()
    service.start()
    left = {service.client.job(job.id).state for job in jobs}
    assert "interrupted" not in left, "nobody has to resume them"
    assert left & {"queued", "running"}, "all ended before the stop"
    ended = [wait_for(lambda id=job.id: (now := service.client.job(id)).ended and now, 300) for job in jobs]
    assert [(job.state, job.trials) for job in ended] == [("done", 3)] * len(jobs)
    exclusive(service)


def test_a_job_waits_for_its_only_board_and_says_so(service: Service, lonely_port: int) -> None:
    agent = service.world.agent("lonely")
    job = Job(service, "rare", layer(8), 20)
    job.measured(4)
    caught(job, "lonely", lambda: session(agent))
    agent.kill()

    def reason() -> str:
        waiting = service.client.job(job.id).waiting
        return waiting.reason if waiting else ""

    wait_for(lambda: "lonely" in reason() and "offline" in reason(), why=reason)
    time.sleep(2 * PATIENCE_S)
    assert service.client.job(job.id).state == "running"
    assert "offline" in reason()
    service.world.start_agent("lonely", lonely_port)
    settled(job, leases_lost=True)
    assert "fault" in [event.kind for event in job.history("lonely")]


def test_at_its_deadline_a_job_ends_with_what_it_has(service: Service) -> None:
    service.wait_good("lonely")
    agent = service.world.agent("lonely")
    deadline = datetime.now(UTC) + timedelta(seconds=25)
    job = service.client.submit(target="rare", workload=to_json(layer(10)), trials=400, deadline=deadline)
    wait_for(lambda: service.client.job(job.id).trials >= 2)
    agent.kill()
    ended = wait_for(lambda: (now := service.client.job(job.id)).ended and now)
    assert ended.state == "done"
    assert ended.message.endswith("its deadline ended it")
    assert ended.finished is not None
    assert ended.finished > deadline - timedelta(seconds=1)
    assert 2 <= ended.trials < 400
    wait_for(lambda: service.client.board("lonely").activity == "offline")
