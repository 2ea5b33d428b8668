"""A quantized model in by the command line, tuned on this machine, a module out that is exact."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from shell import Shell, run_module

from bench.partition_reference import evaluate
from bench.quantized_models import quantized, random_feeds
from compiler.load import load_partition
from tilefleet import Client
from tuner.log.record import read_log

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]


LAYERS = 7


def test_a_quantized_model(shell: Shell, client: Client, tmp_path: Path) -> None:
    model, path = quantized("residual"), tmp_path / "residual.onnx"
    onnx.save(model, path)
    job = json.loads(
        shell("submit", path, "--numerics", "exact", "--trials", 14, "--strategy", "random", "--json")
    )["id"]
    assert "qconv" in shell("watch", job)
    shown = next(entry for entry in json.loads(shell("jobs", "--json")) if entry["id"] == job)
    assert (shown["state"], shown["failed"]) == ("done", 0)
    tasks = client.tasks(job)
    assert {(task.unit, task.share_of_peak) for task in tasks} == {("OP", None)}
    assert len({task.text for task in tasks}) == len(tasks)
    log, module = tmp_path / "best.jsonl", tmp_path / "model.so"
    shell("log", job, "--all", "-o", log)
    records = list(read_log(log.read_text().splitlines()))
    assert {record.workload.kind for record in records} == {"qconv2d"}
    assert {record.max_error for record in records} == {0.0}
    listed = json.loads(shell("check", path, "--log", log, "--numerics", "exact", "--json"))
    checked = [entry for entry in listed if entry["status"] != "not tuned"]
    assert sum(entry["count"] for entry in checked) == LAYERS
    assert {entry["status"] for entry in checked} == {"found"}
    built = json.loads(shell("build", path, "--log", log, "--numerics", "exact", "-o", module, "--json"))
    assert built["layers"] == {"log": LAYERS, "analysis": 0, "default": 0}
    feeds = random_feeds(model, np.random.default_rng(5))
    (output,) = (value.name for value in model.graph.output)
    expected = evaluate(load_partition(path), feeds)[output]
    (data,) = feeds.values()
    assert np.array_equal(run_module(module, data)[0], expected)
