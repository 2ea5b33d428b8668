"""A new kind of board is one file, as docs/extending.md says."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import recipes

from tilefleet.doctor import Broken, could_start
from worker.children.nursery import Nursery
from worker.engine.cluster import EngineError, FleetBoards
from worker.fleet.drivers.registry import KINDS, register
from worker.fleet.fleet_file import Fleet, FleetError, fleet_of, read_fleet
from worker.measure.cores import Cores

FILE = '[[board]]\nid = "mine"\nkind = "cage"\ntags = ["quick"]\n'


@pytest.fixture
def cages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe's module is there and registered."""
    recipes.write("lab/lab_board", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "lab"))
    monkeypatch.setitem(KINDS, "cage", KINDS["host"])  # which puts back what there was
    register(importlib.import_module("lab_board").CageSpec)


def plan(folder: Path, more: str) -> Fleet:
    path = folder / "fleet.toml"
    path.write_text(FILE + more)
    return read_fleet(path)


@pytest.mark.usefixtures("cages")
def test_a_new_kind_has_its_fields_its_needs_and_a_name(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"board 1 \(mine\): cage: it is missing; add it"):
        plan(tmp_path, "")
    (board,) = plan(tmp_path, f'cage = "{tmp_path}"').boards
    assert could_start(board) == "nothing is missing"
    (board,) = plan(tmp_path, 'cage = "/nowhere"').boards
    with pytest.raises(Broken, match="there is no /nowhere; make it"):
        could_start(board)
    assert [board.id for board in fleet_of(["cage", "host", "cage"]).boards] == ["cage", "host", "cage-2"]


@pytest.mark.usefixtures("cages")
async def test_a_board_of_a_new_kind_runs_in_the_fleet(
    tmp_path: Path, agent_dir: Path, nursery: Nursery
) -> None:
    async def shown(fleet: Fleet) -> list[object]:
        async with FleetBoards(agent_dir, nursery, fleet, Cores([0], [])) as boards:
            (listing,) = [context.describe() for context in boards.contexts]
            assert listing is not None
            return [listing.id, listing.target.name, listing.alive, listing.tags]

    assert await shown(plan(tmp_path, 'cage = "/"')) == ["mine", "x86-avx2", True, ("quick",)]
    with pytest.raises(EngineError, match="board mine: there is no /nowhere; make it; or leave it out"):
        await shown(plan(tmp_path, 'cage = "/nowhere"'))
