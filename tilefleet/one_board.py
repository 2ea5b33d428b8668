"""A board for one command, where no server runs: started here, or one that others run."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.target import Target
from tilefleet.errors import TilefleetError
from tilefleet.home import home
from tuner.job.delivery import MEMORY_BYTES, TIMEOUT_S
from worker.children.nursery import Nursery
from worker.fleet.drivers.agent_build import AgentBuildError
from worker.fleet.drivers.base import BoardError, Driver
from worker.fleet.drivers.gateway import Gateway
from worker.fleet.drivers.spec import BoardSpec, Site, split_address
from worker.fleet.fleet_file import Fleet, FleetError, fleet_of, read_fleet

PRESENT_S = 10.0
"""How long a board may take to be there: one that dials in tries every five seconds at the least."""


@dataclass(frozen=True)
class StartedBoard:
    """A board that is there; ``lock`` is the file that is held while a model runs on it. ``target`` is None
    of this machine's."""

    driver: Driver
    nursery: Nursery
    lock: Path
    target: Target | None

    def call(self, entry: str, payload: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> Any:
        """What a child's ``entry`` returns that is told of the board; raises ChildError."""
        told = {"board": self.driver.address, "id": self.driver.id, "lock": str(self.lock)}
        return self.nursery.call(
            entry,
            {**payload, **told},
            timeout_s=timeout_s,
            memory_bytes=MEMORY_BYTES,
            on_message=lambda _: None,
        )


@contextmanager
def started_board(name: str, file: Path | None, target: Target | None) -> Iterator[StartedBoard]:
    """The board called ``name``, of the fleet ``file`` or one that this machine can start, until the end.

    Raises TilefleetError when the board cannot be had or is for another target than ``target``, where
    one is given.
    """
    try:
        fleet, spec = named_board(name, file)
        every = sorted(os.sched_getaffinity(0))
        gateway = Gateway(*split_address(fleet.listen))
        board = spec.driver(Site(home() / "boards", every, every, gateway))
        is_for = fleet.known_targets[board.target] if board.target else None
        if target is not None and is_for is not None and is_for.key != target.key:
            raise TilefleetError(f"board {name} is a {board.target}, the module is for {target.name}")
        board.start()
    except (FleetError, BoardError, AgentBuildError) as error:
        raise TilefleetError(str(error)) from None
    try:
        _await(board, spec)
        with tempfile.TemporaryDirectory(prefix="tilefleet-") as folder, Nursery() as nursery:
            yield StartedBoard(board, nursery, Path(folder) / "lock", is_for)
    finally:
        board.stop()


def named_board(name: str, file: Path | None) -> tuple[Fleet, BoardSpec]:
    """The board called ``name``: an entry of the fleet file, else one that can be had by its name.

    Raises FleetError.
    """
    if file is not None:
        fleet = read_fleet(file)
        for spec in fleet.boards:
            if spec.id == name:
                return fleet, spec
    fleet = fleet_of([name])
    return fleet, fleet.boards[0]


def _await(driver: Driver, spec: BoardSpec) -> None:
    """Wait until a board that others run is there; raises TilefleetError."""
    end = time.monotonic() + PRESENT_S
    while not driver.alive():
        if time.monotonic() > end:
            raise TilefleetError(f"board {spec.id}: {spec.absence()}")
        time.sleep(0.2)
