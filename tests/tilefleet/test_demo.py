"""The demo on a tiny model: everything it promises is in its report, and a bad model ends it clearly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.tflite_models import small
from tuner.log.record import read_log

pytestmark = pytest.mark.timeout(900)
ROOT = Path(__file__).resolve().parents[2]


def demo(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.demo", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=800, check=False
    )


def test_the_report_has_everything(tiny_model: Path, tmp_path: Path) -> None:
    # Long enough for the first trial of each layer, however busy the machine is.
    done = demo(tmp_path, "--model", tiny_model, "--seconds", 40)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "demo-report.json").read_text())
    wanted = {"model", "threads", "layers", "default_ms", "tuned_ms", "onnxruntime_ms", "check"}
    assert wanted | {"speedup_vs_onnxruntime", "trials", "failed_trials", "tuning_s"} <= set(report)
    assert (report["model"], report["threads"]) == ("tiny.onnx", 1)
    assert report["checked"]
    assert max(report["check"]["errors"].values()) < 1e-5
    assert report["speedup_vs_onnxruntime"] == report["onnxruntime_ms"] / report["tuned_ms"]
    assert [layer["times"] for layer in report["layers"]] == [1, 2, 1]
    assert sum(layer["trials"] for layer in report["layers"]) == report["trials"]
    for layer in report["layers"]:
        assert min(layer["default_ms"], layer["untuned_ms"], layer["tuned_ms"]) > 0
        assert layer["workload"] in done.stdout
    log = tmp_path / ".tilefleet/demo/tiny.jsonl"
    with log.open() as lines:
        # None where the untuned model won.
        assert len({record.workload.key for record in read_log(lines)}) in (0, 3)
    assert str(log.relative_to(tmp_path)) in done.stdout


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    text = tmp_path / "text.onnx"
    text.write_text("not a model")
    done = demo(tmp_path, "--model", text)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("text.onnx: is not an ONNX or TFLite model, or is truncated")
    assert not (tmp_path / "demo-report.json").exists()


def test_a_tflite_file(tmp_path: Path) -> None:
    """It could be tuned, but not compared, which is better said before than after."""
    file = tmp_path / "small.tflite"
    file.write_bytes(small("int8"))
    done = demo(tmp_path, "--model", file)
    assert done.returncode == 1
    assert f"tilefleet submit {file}" in done.stderr
    assert "Starting" not in done.stdout
