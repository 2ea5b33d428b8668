"""What a job gains beside a second stopwatch, on the smallest model, and the table of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from benches import bench, run

from bench.tuning.table import print_table

pytestmark = pytest.mark.timeout(1700)


def test_a_job_beside_the_stopwatch_and_the_rest_another_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--models", "plain", "--seconds", "60", "--pairs", "1"]
    report = bench("tuning", tmp_path, *arguments)
    (row,) = report["rows"]
    assert (row["model"], row["board"], row["threads"], row["budget_s"]) == ("plain", "host", 1, 60.0)
    if row["verdict"] is None:  # a machine as busy as that has no time for the race
        assert "too small" in row["no_verdict"]
    else:
        assert row["verdict"]["low"] <= row["verdict"]["gain"] <= row["verdict"]["high"]
        watch = row["stopwatch"]
        # One and the same file is not twice as fast as itself, however busy the machine is.
        assert 0.5 < watch["error"] < 2
        assert watch["low"] == watch["gain"] == watch["high"] > 0
    # What the board is asked first is not of the budget.
    assert 0 < row["elapsed_s"] < row["wall_s"] + 2
    assert sum(row["phases"].values()) == pytest.approx(row["wall_s"], abs=2)
    assert bench("tuning", tmp_path, *arguments) == report
    assert run("tuning", tmp_path, "--models", "plain", "--pairs", "2").returncode == 2
    print_table(
        [row, row | {"verdict": None, "stopwatch": None, "no_verdict": "it failed", "built_ms": None}]
    )
    table = capsys.readouterr().out
    assert f"| 60 | {row['elapsed_s']:.1f} | {row['load']:.0f} | {row['trials']} |" in table
    assert f"| {row['state']}, no verdict |" in table
    assert "host, 1 thread(s), 60 s" in table
