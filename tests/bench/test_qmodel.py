"""bench.qmodel and bench.int8_layers at their smallest, and how results are compared."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from benches import bench

from bench.qmodel import off_quanta, quantum_of
from bench.quantized_models import quantized
from worker.fleet.drivers.simulated import why_no_emulator

pytestmark = pytest.mark.timeout(600)


def test_a_tuned_model_is_exact_and_kept(tmp_path: Path) -> None:
    arguments = ["--suite", "residual", "--trials-a-layer", "2", "--rounds", "3"]
    report = bench("qmodel", tmp_path, *arguments)
    timed = report["timed"]
    assert report["tuned"]["trials"] == 14
    assert {layer["source"] for layer in timed["layers"]} == {"log"}
    assert {layer["max_error"] for layer in timed["layers"]} == {0.0}
    assert min(timed["ms"].values()) > 0
    assert set(timed["speedup"]) == {"analysis", "tuned"}
    assert all(each["largest"] <= 1 for each in timed["off"].values())
    assert bench("qmodel", tmp_path, *arguments) == report


def test_without_tuning(tmp_path: Path) -> None:
    arguments = ["--suite", "depthwise", "--form", "qoperator", "--activations", "int8", "--no-tuning"]
    report = bench("qmodel", tmp_path, *arguments, "--rounds", "3")
    assert "tuned" not in report
    assert {layer["source"] for layer in report["timed"]["layers"]} == {"analysis"}


def test_layers_are_exact_on_a_simulated_board(tmp_path: Path) -> None:
    problem = why_no_emulator("rpi4-sim")
    if problem:
        assert os.environ.get("CI") != "true", problem
        pytest.skip(problem)
    report = bench("int8_layers", tmp_path, "--suite", "residual", "--board", "rpi4-sim")
    assert [row["wrong"] for row in report["rows"]] == [0] * len(report["rows"])
    kinds = {row["text"].split()[0] for row in report["rows"]}
    assert kinds == {"qconv", "QAdd", "QPool"}


def test_differences_are_told_in_quanta() -> None:
    model = quantized("plain")
    (output,) = (value.name for value in model.graph.output)
    quantum = quantum_of(model, output)
    ours = np.array([3, -2, 0, 7], np.float32) * np.float32(quantum)
    theirs = np.array([3, -1, 0, 4], np.float32) * np.float32(quantum)
    assert off_quanta(theirs, ours, quantum) == {"share": 0.5, "largest": 3}
    with pytest.raises(ValueError, match="conv_0 is not the result of a DequantizeLinear"):
        quantum_of(model, "conv_0")
