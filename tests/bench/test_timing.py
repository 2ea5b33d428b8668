"""Turns, ratios and suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.suite import COLUMNS, read_suite, sample
from bench.timing import geomean, in_turns, ratio


def test_functions_take_turns() -> None:
    calls: list[str] = []
    seconds = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3, min_s=0)
    assert calls == ["a", "a", "b", "b"] + ["a", "b"] * 3
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3}


def test_ratio_is_peer_over_ours() -> None:
    middle, low, high = ratio([4.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    assert (middle, low, high) == (2.0, 2.0, 4.0)


def test_geomean() -> None:
    assert geomean([2.0, 8.0]) == pytest.approx(4.0)
    assert geomean([]) is None


def _write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join([",".join(COLUMNS), *rows]))
    return path


def test_suite_keeps_distinct_layers(tmp_path: Path) -> None:
    row = "1,3,8,8,4,3,3,1,1,1,1,1,1,1,1,1"
    path = _write(tmp_path / "suite.csv", f"m,a,{row}", f"m,b,{row}", "m,c,1,3,8,8,5,3,3,1,1,1,1,1,1,1,1,1")
    suite = read_suite(path)
    assert list(suite) == ["m/a", "m/c"]
    assert suite["m/c"].out_shape == (1, 5, 8, 8)
    assert sample(suite, 1, seed=1) == sample(suite, 1, seed=1)
    assert sample(suite, 9, seed=1) == suite


def test_damaged_suite_names_the_line(tmp_path: Path) -> None:
    path = _write(tmp_path / "suite.csv", "m,a,1,3,8,8,4,3,3,1,1,1,1,1,1,1,1,1", "m,b,1,zero")
    with pytest.raises(ValueError, match="line 3"):
        read_suite(path)
    (tmp_path / "other.csv").write_text("model,layer\nm,a\n")
    with pytest.raises(ValueError, match="no column n, in_c"):
        read_suite(tmp_path / "other.csv")
