"""bench.int8 at its smallest: a quantized layer through the service's jobs, records and best config."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(1200)


def test_int8(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [
        sys.executable,
        "-m",
        "bench.int8",
        "--suite",
        "mobilenet_v2",
        "--sample",
        "2",
        "--rounds",
        "3",
    ]
    done = subprocess.run(
        [*command, "--max-trials", "3", "--json", str(report)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    value = json.loads(report.read_text())
    assert len(value["rows"]) == 2
    for row in value["rows"]:
        assert row["trials"] == 3
        assert row["off"]["tuned"] == row["off"]["analysis"] == {"share": 0.0, "largest": 0}
        assert row["off"]["onnxruntime"]["largest"] <= 1  # weights of 7 bits do not saturate
        assert min(row["gops"].values()) > 0
        assert {"onnxruntime", "onnxruntime_u8u8"} <= row["ratios"].keys()
    assert value["summary"]["all (2)"]["onnxruntime"] > 0
    again = subprocess.run(
        [*command, "--max-trials", "4", "--json", str(report)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert again.returncode == 2
    assert "was made with max_trials 3" in again.stderr
