"""Configs of quantized products take turns in the model, each with constants of its own."""

import numpy as np
import onnx
import pytest

from bench.quantized_models import quantized
from compiler.load import load_partition
from kernels import registry
from kernels import target as targets
from kernels.reference import reference
from kernels.target import CATALOGUE
from tuner.job import in_place
from tuner.log.record import Record

TARGET = CATALOGUE["x86-avx2"]


@pytest.mark.usefixtures("avx2")
def test_near_configs_compute_the_same(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    onnx.save(quantized("plain"), path)
    product = load_partition(path).products[1]
    space = registry.kernel("qdirect").space(product.workload, TARGET)
    # Their constants differ: words and bytes are packed in other ways.
    configs = [next(c for c in space if c["multiply"] == multiply) for multiply in ("words", "bytes")]
    version = registry.kernel("qdirect").version
    records = [
        Record(product.workload, TARGET, config, version, 1, cost_s=1e-5, verified_s=1e-5)
        for config in configs
    ]
    calls, timed = [], in_place.Contest.call

    def call(self, arguments):
        timed(self, arguments)
        calls.append((arguments[0].numpy(), arguments[-1].numpy()))

    monkeypatch.setattr(in_place.Contest, "call", call)
    monkeypatch.setattr(in_place, "ROUNDS", 2)
    payload = {
        "model": str(path),
        "shapes": None,
        "target": targets.to_json(TARGET),
        "threads": 1,
        "numerics": "exact",
        "records": [record.to_json() for record in records],
        "relayouts": [],
        "lock": str(tmp_path / "lock"),
    }
    found = in_place.time_in_child(payload, lambda _: None)["configs"]
    assert {each["key"] for each in found} == {product.workload.key}
    assert len(found) >= 2
    assert len(calls) >= 5  # to warm up, and twice each
    for data, result in calls:
        assert np.array_equal(result, reference(product.workload, [data, *product.constants]))
