"""bench.int8 at its smallest: a quantized layer through the service's jobs, records and best config."""

from __future__ import annotations

from pathlib import Path

import pytest
from benches import bench, run

pytestmark = pytest.mark.timeout(1200)


def test_int8(tmp_path: Path) -> None:
    arguments = ["--suite", "mobilenet_v2", "--sample", "2", "--rounds", "3"]
    value = bench("int8", tmp_path, *arguments, "--max-trials", "3")
    assert len(value["rows"]) == 2
    for row in value["rows"]:
        assert row["trials"] == 3
        assert row["off"]["tuned"] == row["off"]["analysis"] == {"share": 0.0, "largest": 0}
        assert row["off"]["onnxruntime"]["largest"] <= 1  # weights of 7 bits do not saturate
        assert min(row["gops"].values()) > 0
        assert {"onnxruntime", "onnxruntime_u8u8"} <= row["ratios"].keys()
    assert value["summary"]["all (2)"]["onnxruntime"] > 0
    again = run("int8", tmp_path, *arguments, "--max-trials", "4")
    assert again.returncode == 2
    assert "was made with max_trials 3" in again.stderr
