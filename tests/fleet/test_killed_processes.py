"""Processes of a board are killed or frozen while it measures: the job goes on, the board is probed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleet_accounts import Job, caught, layer, probed, settled

from bench.soak.world import Service, World, session

pytestmark = [pytest.mark.xdist_group("killed"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def service(world: World) -> Iterator[Service]:
    """A service with this machine as its board."""
    service = Service(world, TILEFLEET_DATABASE_URL=f"sqlite:///{world.home / 'book.sqlite3'}")
    service.wait_good("host")
    yield service
    service.stop()


@pytest.mark.parametrize("victim", ["agent", "session", "measuring_child"])
def test_a_killed_process_costs_a_retry(service: Service, victim: str) -> None:
    agent = service.world.agent("host")
    job = Job(service, "host", layer(len(victim)), 20)
    job.measured(4)
    if victim == "measuring_child":
        held = caught(job, "host", lambda: service.world.measuring_child("host"))
    else:
        held = caught(job, "host", lambda: session(agent))
    killed = agent if victim == "agent" else held
    killed.kill()
    settled(job)
    probed(job, "host")
    service.world.assert_gone([killed, held])


@pytest.mark.parametrize("victims", [["agent"], ["agent", "session"]], ids="+".join)
def test_a_frozen_board_is_mended(service: Service, victims: list[str]) -> None:
    agent = service.world.agent("host")
    job = Job(service, "host", layer(20 + len("".join(victims))), 20)
    job.measured(3)
    held = caught(job, "host", lambda: session(agent))
    agent.suspend()
    if "session" not in victims:
        held.resume()
    settled(job)
    probed(job, "host", "fault")
    service.world.assert_gone([agent, held])
