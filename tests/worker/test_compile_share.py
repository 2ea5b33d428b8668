"""How much of an agent is compiled is told while it is known."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from worker.fleet.drivers import compile_share
from worker.fleet.drivers.compile_share import OBJECTS, telling_share


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    shares: list[float | None] = []
    monkeypatch.setattr(compile_share, "LOOK_S", 0.01)
    monkeypatch.setattr(compile_share, "tell_share", shares.append)
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path))
    return shares


def until(told: list[float | None], share: float | None) -> None:
    end = time.monotonic() + 60
    while share not in told:
        assert time.monotonic() < end, told
        time.sleep(0.005)


def test_the_share_grows_with_zigs_cache(told: list[float | None], tmp_path: Path) -> None:
    with telling_share():
        until(told, 0.0)  # there is no cache yet
        for made in range(OBJECTS // 2):
            (tmp_path / f"o/{made}").mkdir(parents=True)
        until(told, 0.5)
        for made in range(OBJECTS // 2, 2 * OBJECTS):
            (tmp_path / f"o/{made}").mkdir()
        until(told, 1.0)
    shares = [each for each in told if each is not None]
    assert shares == sorted(shares)
    assert told[-1] is None


def test_what_was_there_before_does_not_count(told: list[float | None], tmp_path: Path) -> None:
    for made in range(30):
        (tmp_path / f"o/{made}").mkdir(parents=True)
    with telling_share():
        until(told, 0.0)


def test_of_two_at_once_nothing_is_told(told: list[float | None], tmp_path: Path) -> None:
    with telling_share():
        until(told, 0.0)
        with telling_share():
            until(told, None)
            seen = len(told)
            (tmp_path / "o/0").mkdir(parents=True)
            time.sleep(0.1)
        assert set(told[seen:]) <= {None}
