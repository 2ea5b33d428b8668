"""Processes of a board are killed or frozen while it measures: the job goes on, the board is probed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
from fleet_accounts import Job, layer, probed, settled
from fleet_world import Service, World, wait_for

pytestmark = pytest.mark.xdist_group("killed")


@pytest.fixture(scope="module")
def service(world: World) -> Iterator[Service]:
    """A service with this machine as its board."""
    service = Service(world, TILEFLEET_DATABASE_URL=f"sqlite:///{world.home / 'book.sqlite3'}")
    service.wait_good("host")
    yield service
    service.stop()


@pytest.mark.parametrize("victim", ["agent", "session", "measuring_child"])
def test_a_killed_process_costs_a_retry(service: Service, victim: str) -> None:
    job = Job(service, "host", layer(len(victim)), 20)
    job.measured(4)
    killed = wait_for(lambda: strike(service.world, victim))
    settled(job)
    probed(job, "host")
    service.world.assert_gone([killed])


def strike(world: World, victim: str) -> psutil.Process | None:
    """Kill a process of the board while it measures; None, or psutil's error, when it had ended before."""
    session = world.session("host")
    killed = {"agent": session.parent(), "session": session}.get(victim) or world.measuring_child("host")
    if not session.is_running():
        return None
    killed.kill()
    return killed


@pytest.mark.parametrize("victims", [["agent"], ["agent", "session"]], ids="+".join)
def test_a_frozen_board_is_mended(service: Service, victims: list[str]) -> None:
    job = Job(service, "host", layer(20 + len("".join(victims))), 12)
    job.measured(3)
    frozen = [getattr(service.world, victim)("host") for victim in victims]
    for process in frozen:
        with suppress(psutil.NoSuchProcess):  # a session that has just ended
            process.suspend()
    settled(job)
    probed(job, "host", "fault")
    service.world.assert_gone(frozen)
