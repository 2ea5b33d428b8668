"""Each module has services of its own, shared by the faults that leave them whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "worker"))  # its candidates, agents and programs of TVM
sys.path.insert(0, str(Path(__file__).parents[1] / "server"))  # its databases

from databases import postgres, redis_url

from bench.soak.world import World

__all__ = ["postgres", "redis_url"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Where the services of a module and what belongs to them run."""
    world = World(tmp_path_factory.mktemp("world"))
    try:
        yield world
    finally:
        world.close()
