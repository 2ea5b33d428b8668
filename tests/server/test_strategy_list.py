"""Which strategies the server offers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tuner.search import strategies

BUILT_IN = ("analysis", "exhaustive", "random", "annealing", "evolution", "model", "bandit")
PLUG_IN = '''
from tuner.search.strategies.random import RandomStrategy

class Mine(RandomStrategy):
    """Tries what I like
    best.

    More of it.
    """
    name = "mine"

class Silent(RandomStrategy):
    name = "silent"
'''


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two strategies of an installed package."""
    facts = tmp_path / "mine-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    groups = "[tilefleet.strategies]\na = listed_plugin:Mine\nb = listed_plugin:Silent\n"
    (facts / "entry_points.txt").write_text(groups)
    (tmp_path / "listed_plugin.py").write_text(PLUG_IN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(strategies, "STRATEGIES", dict(strategies.STRATEGIES))
    strategies._add_plugged.cache_clear()
    yield
    strategies._add_plugged.cache_clear()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # nothing here reaches the database
@pytest.mark.usefixtures("plugged")
def test_strategies_are_listed_with_those_of_plug_ins(client: TestClient) -> None:
    about = {each["name"]: each["about"] for each in client.get("/api/v1/strategies").json()["items"]}
    assert list(about) == [*BUILT_IN, "mine", "silent"]
    assert about["random"] == "Draws configs at random, from all kernels alike."
    assert all(about[name].endswith(".") for name in list(about)[:-1])
    assert (about["mine"], about["silent"]) == ("Tries what I like best.", "")
