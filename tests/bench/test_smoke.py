"""Each slow bench once at its smallest, through a real service: only the shape of the figures is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from benches import bench, run
from onnx import TensorProto, helper, numpy_helper

from bench.conv_summary import trials_to_near
from bench.suite import COLUMNS

pytestmark = pytest.mark.timeout(1700)


def _write_docs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.report", "report.json", "--docs", "docs"]
    subprocess.run(command, check=True, timeout=300, cwd=tmp_path)


def test_conv(tmp_path: Path) -> None:
    """One layer; then two, of which the first is there already."""
    suite = tmp_path / "suite.csv"
    header = ",".join(COLUMNS)
    suite.write_text(f"{header}\nm,a,1,3,9,9,8,3,3,1,1,1,1,1,1,1,1,1\n")
    arguments = ["--suite", str(suite), "--sample", "all", "--max-trials", "3", "--rounds", "3"]
    first = bench("conv", tmp_path, *arguments)
    with suite.open("a") as file:
        file.write("m,b,1,8,9,9,4,1,1,1,1,0,0,0,0,1,1,1\nm,c,1,8,9,9,4,1,1,1,1,0,0,0,0,1,1,1\n")
    report = bench("conv", tmp_path, *arguments)
    one, two = report["rows"]
    assert [one] == first["rows"]
    assert report["tuned"]["m/a"] == first["tuned"]["m/a"]
    summary = report["summary"]
    assert (summary["n"], summary["occurrences"], summary["stride_1_3x3"]["n"]) == (2, 3, 1)
    assert {"onnxruntime", "im2col_openblas", "best_peer"} <= summary["geomean"].keys()
    assert summary["stride_1_3x3"]["onnxruntime"] == pytest.approx(one["ratios"]["onnxruntime"]["median"])
    assert min(two["tuned_gflops"], two["analysis_gflops"], *two["peers"].values()) > 0
    assert one["trials"] == two["trials"] == 3
    assert 1 <= summary["trials_to_near"]["median"] <= summary["trials_to_near"]["most"] <= 3
    assert summary["peak_gflops"] > one["analysis_gflops"]
    _write_docs(tmp_path)
    table = (tmp_path / "docs" / "report.md").read_text()
    assert "8x9x9 -> 4, 1x1" in table
    assert "report.svg" in table
    assert (tmp_path / "docs" / "report.svg").read_text().count("<title>") == 2  # a bar a layer


def test_uploads(tmp_path: Path) -> None:
    report = bench("uploads", tmp_path, "--uploads", "4", "--seconds", "1")
    assert sum(report["uploads"].values()) == 4
    assert all(0 < when["median_ms"] <= when["worst_ms"] for when in report["answers"].values())


def test_lost_share(tmp_path: Path) -> None:
    report = bench("lost_share", tmp_path, "--trials", "2", "--boards", "host")
    assert (report["targets"], report["trials"], report["problems"]) == (["host"], 2, [])
    assert 0 <= report["lost_share"] <= 1


def test_trials_to_a_config_near_the_best() -> None:
    assert trials_to_near([(0, 1.0)]) == 1
    assert trials_to_near([(0, 2.0), (3, 1.04), (7, 1.02), (9, 1.0), (30, 1.0)]) == 8


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A model of two convolutions."""
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
    return str(tmp_path / "tiny.onnx")


def test_model(tmp_path: Path, tiny: str) -> None:
    report = bench(
        "model",
        tmp_path,
        "--model",
        tiny,
        "--trials-a-layer",
        "4",
        "--rounds",
        "3",
        "--default",
    )
    assert report["max_rel_err"] < 1e-4
    assert {layer["source"] for layer in report["layers"]} <= {"log", "analysis"}
    assert min(report[f"{build}_ms"] for build in ("tuned", "analysis", "default", "onnxruntime")) > 0


def test_model_table(tmp_path: Path, tiny: str) -> None:
    budget = ["--trials-a-layer", "3", "--rounds", "3", "--numerics", "exact"]
    report = bench("model_table", tmp_path, "--models", tiny, "--threads", "2", *budget)
    assert [(row["threads"], row["trials"]) for row in report["rows"]] == [(2, 6)]
    report["rows"].insert(0, {**report["rows"][0], "threads": 1})
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert bench("model_table", tmp_path, "--models", tiny, "--threads", "1,2", *budget) == report
    _write_docs(tmp_path)
    assert (tmp_path / "docs" / "report.md").read_text().count(tiny) == 3  # the command and two rows


def test_throughput(tmp_path: Path) -> None:
    report = bench("throughput", tmp_path, "--trials", "4")
    assert report["trials"] >= 4  # and those of the untuned model's configs, where that wins
    assert report["failed"] == 0
    assert 0 < report["board_busy"] < 1


def test_fleet(tmp_path: Path) -> None:
    report = bench("fleet", tmp_path, "--layers", "1", "--trials", "6", "--min-time", "0.01")
    (host,) = report["boards"]
    assert (host["name"], host["clock"]) == ("host", "wall")
    assert host["trials"] >= 6  # and the best ones again
    assert host["measurements_per_s"] > 0
    assert 0 < host["utilisation"] < 1
    assert (report["lost"], report["duplicated"], report["wrong_target"]) == (0, 0, 0)


def test_unknown_model_is_named(tmp_path: Path) -> None:
    done = run("model", tmp_path, "--model", "resnet19")
    assert done.returncode == 2
    assert "resnet19 is no file and none of" in done.stderr


def test_fleet_simulation(tmp_path: Path) -> None:
    report = bench("fleet_simulation", tmp_path, "--boards", "5", "--jobs", "2", "--seconds", "2")
    assert (report["lost"], report["duplicated"]) == (0, 0)
    assert 0 < report["utilisation"] <= 1
    assert report["most_leases_per_s"] > 0
