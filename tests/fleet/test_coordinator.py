"""The coordinator itself is killed, and a board on which all depends does not come back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psutil
import pytest
from dialing import free_port
from fleet_accounts import Job, caught, exclusive, layer, settled
from fleet_files import write_fleet
from fleet_world import Service, World, session, wait_for

from worker.fleet.times import FleetTimes

pytestmark = [pytest.mark.xdist_group("coordinator"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def service(world: World) -> Iterator[Service]:
    """This machine, and a board that is the only one of its kind."""
    port = free_port()
    world.start_agent("lonely", port)
    lonely = {"id": "lonely", "kind": "agent", "target": "rare", "address": f"127.0.0.1:{port}"}
    lonely["token_file"] = str(world.home / "lonely.token")
    fleet = write_fleet(world.home / "fleet.toml", [{"id": "host", "kind": "host"}, lonely])
    book = f"sqlite:///{world.home / 'book.sqlite3'}"
    service = Service(
        world,
        "--fleet",
        fleet,
        times=FleetTimes(patience_s=8.0, lease_s=300.0, renew_s=75.0),
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


def test_without_its_only_board_a_job_fails_and_says_so(service: Service) -> None:
    agent = service.world.agent("lonely")
    job = Job(service, "rare", layer(8), 40)
    job.measured(4)
    caught(job, "lonely", lambda: session(agent))
    agent.kill()
    ended = job.wait()
    assert ended.state == "failed"
    assert "lonely" in ended.message, ended
    records = job.records()
    fine = [record for record in records if record.error is None]
    assert len(fine) >= 4
    counted = service.client.board("lonely").trials - job.before["lonely"].trials
    assert counted <= len(fine)
    assert {record.error for record in records} <= {None, "board_lost"}
    assert "fault" in [event.kind for event in job.history("lonely")]
    wait_for(lambda: service.client.board("lonely").activity == "offline")
