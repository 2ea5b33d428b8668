"""Each slow bench once at its smallest, through a real service: only the shape of the figures is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.suite import COLUMNS


def _bench(name: str, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", f"bench.{name}", *arguments, "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    value: dict[str, Any] = json.loads(report.read_text())
    return value


def test_conv(tmp_path: Path) -> None:
    suite = tmp_path / "suite.csv"
    suite.write_text(",".join(COLUMNS) + "\nm,a,1,3,9,9,8,3,3,1,1,1,1,1,1,1,1,1\n")
    report = _bench("conv", tmp_path, "--suite", str(suite), "--budget-s", "5", "--rounds", "3")
    (row,) = report["rows"]
    assert report["n"] == 1
    assert report["geomean"].keys() == {"onnxruntime", "im2col_openblas", "torch", "best_peer"}
    assert report["geomean"]["onnxruntime"] == pytest.approx(row["ratios"]["onnxruntime"]["median"])
    assert min(row["tuned_gflops"], row["analysis_gflops"], *row["peers"].values()) > 0
    assert row["trials"] > 1
    assert report["peak_gflops"] > row["analysis_gflops"]


def test_model(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    weights = {"w": (8, 3, 3, 3), "v": (4, 8, 1, 1)}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], kernel_shape=[3, 3]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "v"], ["y"], kernel_shape=[1, 1]),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 11, 11])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 9, 9])],
        [numpy_helper.from_array(rng.standard_normal(s, np.float32), n) for n, s in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "tiny.onnx"))
    arguments = ["--model", str(tmp_path / "tiny.onnx"), "--budget-s", "6", "--rounds", "3", "--default"]
    report = _bench("model", tmp_path, *arguments)
    assert report["max_rel_err"] < 1e-4
    assert [layer["source"] for layer in report["layers"]] == ["log", "log"]
    assert min(report[f"{build}_ms"] for build in ("tuned", "analysis", "default", "onnxruntime")) > 0


def test_throughput(tmp_path: Path) -> None:
    report = _bench("throughput", tmp_path, "--trials", "4")
    assert (report["trials"], report["failed"]) == (4, 0)
    assert 0 < report["board_busy"] < 1


def test_fleet(tmp_path: Path) -> None:
    report = _bench("fleet", tmp_path, "--layers", "1", "--trials", "6", "--min-time", "0.01")
    (host,) = report["boards"]
    assert (host["name"], host["clock"]) == ("host", "wall")
    assert host["trials"] >= 6  # and the best ones again
    assert host["measurements_per_s"] > 0
    assert 0 < host["utilisation"] < 1
    assert (report["lost"], report["duplicated"], report["wrong_target"]) == (0, 0, 0)


def test_unknown_model_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.model", "--model", "resnet19"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "resnet19 is no file and none of" in done.stderr


def test_fleet_simulation(tmp_path: Path) -> None:
    report = _bench("fleet_simulation", tmp_path, "--boards", "5", "--jobs", "2", "--seconds", "2")
    assert (report["lost"], report["duplicated"]) == (0, 0)
    assert 0 < report["utilisation"] <= 1
    assert report["most_leases_per_s"] > 0
