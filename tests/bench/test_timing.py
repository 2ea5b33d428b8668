"""Turns, ratios and suites."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from bench.suite import COLUMNS, read_suite, sample
from bench.timing import geomean, in_turns, ratio
from tuner.runtimes.turns import take_turns


def test_functions_take_turns() -> None:
    calls: list[str] = []
    seconds = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3, min_s=0)
    assert calls == ["a", "a", "b", "b"] + ["a", "b"] * 3
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3}


def test_another_process_s_time_is_in_wall_but_not_in_processor_time() -> None:
    turns = take_turns({"sleep": lambda: time.sleep(0.01)}, rounds=2)["sleep"]
    assert min(turns.fair(2)) >= 0.01
    assert max(turns.fair(1)) < 0.01


def test_a_turn_begins_when_the_threads_of_the_one_before_are_at_rest() -> None:
    spinning, seen, threads = threading.Event(), [], []

    def spin() -> None:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        spinning.clear()

    def leaves_a_thread_spinning() -> None:
        spinning.set()
        threads.append(threading.Thread(target=spin))
        threads[-1].start()

    functions = {"a": leaves_a_thread_spinning, "b": lambda: seen.append(spinning.is_set())}
    take_turns(functions, rounds=3, min_s=0)
    for thread in threads:
        thread.join()
    assert seen
    assert not any(seen)


def test_ratio_is_peer_over_ours() -> None:
    middle, low, high = ratio([4.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    assert (middle, low, high) == (2.0, 2.0, 4.0)


def test_geomean() -> None:
    assert geomean([2.0, 8.0]) == pytest.approx(4.0)
    assert geomean([2.0, 16.0], [2, 1]) == pytest.approx(4.0)
    assert geomean([]) is None


def _write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join([",".join(COLUMNS), *rows]))
    return path


def test_suite_keeps_distinct_layers(tmp_path: Path) -> None:
    row = "1,3,8,8,4,3,3,1,1,1,1,1,1,1,1,1"
    path = _write(tmp_path / "suite.csv", f"m,a,{row}", f"m,b,{row}", "m,c,1,3,8,8,5,3,3,1,1,1,1,1,1,1,1,1")
    suite = read_suite(path)
    assert [(layer.name, layer.count) for layer in suite] == [("m/a", 2), ("m/c", 1)]
    assert suite[1].conv.out_shape == (1, 5, 8, 8)
    assert len(sample(suite, 1, seed=1)) == 1
    assert sample(suite, 1, seed=1) == sample(suite, 1, seed=1)
    assert sample(suite, 9, seed=1) == sample(suite, 0, seed=1) == suite


def test_damaged_suite_names_the_line(tmp_path: Path) -> None:
    path = _write(tmp_path / "suite.csv", "m,a,1,3,8,8,4,3,3,1,1,1,1,1,1,1,1,1", "m,b,1,zero")
    with pytest.raises(ValueError, match="line 3"):
        read_suite(path)
    (tmp_path / "other.csv").write_text("model,layer\nm,a\n")
    with pytest.raises(ValueError, match="no column n, in_c"):
        read_suite(tmp_path / "other.csv")
