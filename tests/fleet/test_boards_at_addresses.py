"""Boards that others run: their uploads are cut, their tracker dies, and one of them vanishes for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from subprocess import Popen

import psutil
import pytest
from fleet_accounts import Job, caught, layer, probed, settled

from bench.soak.fleet_file import free_port, write_fleet
from bench.soak.network import Proxy, proxied
from bench.soak.world import START_S, Service, World, session, wait_for
from worker.fleet.times import FleetTimes

pytestmark = [pytest.mark.xdist_group("addresses"), pytest.mark.timeout(900)]


@dataclass
class Lab:
    """What runs outside of the service, and the service."""

    world: World
    cutter: Proxy
    tracker_port: int
    stock_port: int
    tracker: Popen[bytes]
    stock: Popen[bytes]
    agents: dict[str, Popen[bytes]]
    service: Service


@pytest.fixture(scope="module")
def lab(world: World) -> Iterator[Lab]:
    """Four boards at addresses and a service that has them."""
    tracker_port, server_port = free_port(), free_port()
    ports = {board: free_port() for board in ("left", "right", "cut")}
    tracker, address = start_tracker(world, tracker_port), f"127.0.0.1:{tracker_port}"
    stock = start_stock(world, server_port, tracker_port)
    agents = {board: world.start_agent(board, port) for board, port in ports.items()}
    with proxied(ports["cut"]) as proxy:
        ports["cut"] = proxy.port
        boards: list[dict[str, object]] = [
            {
                "id": board,
                "kind": "agent",
                "target": "cut" if board == "cut" else "pair",
                "address": f"127.0.0.1:{port}",
                "token_file": str(world.home / f"{board}.token"),
            }
            for board, port in ports.items()
        ]
        boards.append({"id": "stock", "kind": "rpc", "target": "tracked", "tracker": address})
        fleet = write_fleet(world.home / "fleet.toml", boards)
        book = f"sqlite:///{world.home / 'book.sqlite3'}"
        # No board is given up here, however long a program of TVM takes to start.
        service = Service(
            world, "--fleet", fleet, times=FleetTimes(patience_s=300.0), TILEFLEET_DATABASE_URL=book
        )
        service.wait_good(*ports, "stock")
        yield Lab(world, proxy, tracker_port, server_port, tracker, stock, agents, service)
        service.stop()


def start_stock(world: World, port: int, tracker: int) -> Popen[bytes]:
    """TVM's server at this very port, and at the tracker with that port."""
    server = ("--host", "127.0.0.1", "--port", port, "--port-end", port + 1, "--key", "stock")
    return world.start_tvm("rpc_server", *server, "--tracker", f"127.0.0.1:{tracker}")


def start_tracker(world: World, port: int) -> Popen[bytes]:
    """TVM's tracker at this very port."""
    return world.start_tvm("rpc_tracker", "--host", "127.0.0.1", "--port", port, "--port-end", port + 1)


def test_a_cut_upload_is_sent_again(lab: Lab) -> None:
    job = Job(lab.service, "cut", layer(8), 20)
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
    lab.tracker = start_tracker(lab.world, lab.tracker_port)

    def back() -> bool:
        # TVM's server gives up after a minute, which is what starting a tracker may take.
        if "Failed to connect to server" in lab.world.said("rpc_server.log"):
            (lab.world.home / "rpc_server.log").unlink()
            lab.world.kill(lab.stock)
            lab.stock = start_stock(lab.world, lab.stock_port, lab.tracker_port)
        return bool(lab.service.client.board("stock").activity != "offline")

    wait_for(back, START_S)
    settled(job)
    probed(job, "stock", "fault", "came_back")


def test_a_board_that_vanishes_leaves_its_work_to_the_other(lab: Lab) -> None:
    agent = psutil.Process(lab.agents["left"].pid)
    job = Job(lab.service, "pair", layer(8), 24)
    held = caught(job, "left", lambda: session(agent))
    agent.kill()
    records = settled(job)
    lab.world.assert_gone([held])
    assert set(Counter(record.board for record in records)) <= {"left", "right"}
    wait_for(lambda: lab.service.client.board("left").activity == "offline")
    assert lab.service.client.board("left").health == "unknown"
    assert "fault" in [event.kind for event in job.history("left")]
    assert lab.service.client.board("right").health == "good"
