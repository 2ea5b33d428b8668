"""Boards that others run: their uploads are cut, their tracker dies, and one of them vanishes for good."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from subprocess import Popen

import pytest
from fleet_accounts import Job, layer, probed, settled
from fleet_files import Cutter, cutter, free_port, write_fleet
from fleet_world import Service, World, wait_for

pytestmark = pytest.mark.xdist_group("addresses")


@dataclass
class Lab:
    """What runs outside of the service."""

    world: World
    cutter: Cutter
    tracker_port: int = field(default_factory=free_port)
    agents: dict[str, Popen[bytes]] = field(default_factory=dict)
    tracker: Popen[bytes] | None = None
    service: Service | None = None

    def start_tracker(self) -> None:
        options = ("--host", "127.0.0.1", "--port", self.tracker_port, "--port-end", self.tracker_port + 1)
        self.tracker = self.world.start_tvm("rpc_tracker", *options)

    def board(self, id: str, kind: str, target: str, **more: object) -> dict[str, object]:
        token = {"token_file": str(self.world.home / f"{id}.token")} if kind == "agent" else {}
        return {"id": id, "kind": kind, "target": target, **token, **more}

    def start(self) -> None:
        ports = {name: free_port() for name in ("left", "right")}
        for name, port in ports.items():
            self.agents[name] = self.world.start_agent(name, port)
        server, tracker = free_port(), f"127.0.0.1:{self.tracker_port}"
        self.start_tracker()
        options = ("--host", "127.0.0.1", "--port", server, "--port-end", server + 1)
        self.world.start_tvm("rpc_server", *options, "--key", "stock", "--tracker", tracker)
        boards = [self.board(name, "agent", "pair", address=f"127.0.0.1:{ports[name]}") for name in ports]
        boards.append(self.board("cut", "agent", "cut", address=f"127.0.0.1:{self.cutter.port}"))
        boards.append(self.board("stock", "rpc", "tracked", tracker=tracker))
        fleet = write_fleet(self.world.home / "fleet.toml", boards)
        book = f"sqlite:///{self.world.home / 'book.sqlite3'}"
        self.service = Service(self.world, "--fleet", fleet, TILEFLEET_DATABASE_URL=book)
        self.service.wait_good("left", "right", "cut", "stock")


@pytest.fixture(scope="module")
def lab(world: World) -> Iterator[Lab]:
    """Four boards at addresses and a service that has them."""
    port = free_port()
    world.start_agent("cut", port)
    with ExitStack() as stack:
        lab = Lab(world, stack.enter_context(cutter(port)))
        lab.start()
        yield lab
        assert lab.service is not None
        lab.service.stop()


def test_a_cut_upload_is_sent_again(lab: Lab) -> None:
    job = Job(lab.service, "cut", layer(8), 12)
    job.measured(3)
    lab.cutter.cuts = 2  # once may be anything, twice is the board's doing
    settled(job)
    assert lab.cutter.done == 2
    probed(job, "cut")


def test_a_tracker_that_dies_and_comes_back(lab: Lab) -> None:
    job = Job(lab.service, "tracked", layer(8), 16)
    job.measured(3)
    lab.world.kill(lab.tracker)
    wait_for(lambda: lab.service.client.board("stock").activity == "offline")
    lab.start_tracker()
    settled(job)
    probed(job, "stock", "fault", "came_back")


def test_a_board_that_vanishes_leaves_its_work_to_the_other(lab: Lab) -> None:
    job = Job(lab.service, "pair", layer(8), 24)
    job.measured(4)
    wait_for(lambda: lab.service.client.board("left").activity == "measuring")
    session = lab.world.session("left")
    lab.agents["left"].send_signal(signal.SIGKILL)
    records = settled(job)
    lab.world.assert_gone([session])
    assert set(Counter(record.board for record in records)) <= {"left", "right"}
    left = lab.service.client.board("left")
    assert (left.activity, left.health) == ("offline", "unknown"), left
    assert "fault" in [event.kind for event in job.history("left")]
    assert lab.service.client.board("right").health == "good"
