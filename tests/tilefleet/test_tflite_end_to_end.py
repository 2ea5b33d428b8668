"""A quantized TFLite model in by the command line, tuned on this machine, a module out that is exact."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from shell import Shell, run_module
from tflite_compare import by_litert, inputs_of

from bench.partition_reference import evaluate
from bench.tflite_models import small
from compiler.load import load_partition

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]


def test_a_tflite_model(shell: Shell, tmp_path: Path) -> None:
    data, path = small("int8"), tmp_path / "small.tflite"
    path.write_bytes(data)
    submitted = shell("submit", path, "--numerics", "exact", "--trials", 12, "--strategy", "random", "--json")
    job = json.loads(submitted)["id"]
    report = shell("watch", job)
    assert "done" in report
    assert "qconv 8x8x16 -> 16, 3x3 g16" in report
    log, module = tmp_path / "best.jsonl", tmp_path / "model.so"
    shell("log", job, "--all", "-o", log)
    listed = json.loads(shell("check", path, "--log", log, "--numerics", "exact", "--json"))
    checked = [entry for entry in listed if entry["status"] != "not tuned"]
    assert {entry["status"] for entry in checked} == {"found"}
    built = json.loads(shell("build", path, "--log", log, "--numerics", "exact", "-o", module, "--json"))
    assert built["layers"] == {"log": 3, "analysis": 0, "default": 0}

    feed = inputs_of(data)
    found = run_module(module, feed["x"])
    partition, wanted = load_partition(path), by_litert(data, feed)
    expected = evaluate(partition, feed)
    for name, value in zip(("y", "y1"), found, strict=True):
        assert np.array_equal(value, expected[name])
        # A result that rounds the other way in one layer may move the next by a quantum more.
        assert np.abs(value.astype(np.int32) - wanted[name]).max() <= 2


def test_a_model_that_is_refused(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "cut.tflite"
    path.write_bytes(small("int8")[:3000])
    assert "cut.tflite: the TFLite file is damaged" in shell.fails("submit", path)
