"""onnxruntime's layers compute what our workloads say, and are timed only where that means something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from bench import library_times
from bench.onnx_layer import onnxruntime_layer
from kernels import target as targets
from kernels.reference import random_inputs, reference
from kernels.target import CATALOGUE
from kernels.workload.activation import PARAMETERS, Kind
from kernels.workload.base import RELU, Activation, Conv2d, Epilogue, Gemm, QConv2d, to_json

WORKLOADS = [
    Conv2d(1, 8, 9, 9, 12, 3, 3, stride=(2, 2), pad=(0, 1, 1, 0), epilogue=Epilogue(bias=True, clamp=RELU)),
    Conv2d(1, 8, 7, 7, 8, 3, 3, pad=(1, 1, 1, 1), groups=8, epilogue=Epilogue(True, True, (None, 0.5))),
    Gemm(5, 7, 11, epilogue=Epilogue(bias=True)),
    Gemm(3, 4, 5, epilogue=Epilogue(residual=True, clamp=(-0.5, 0.5))),
    Conv2d(1, 4, 5, 6, 8, 1, 1, epilogue=Epilogue(bias=True, activation=Activation("prelu"))),
    *(
        Gemm(3, 4, 5, epilogue=Epilogue(bias=True, residual=True, activation=activation, late=True))
        for kind in get_args(Kind)
        for activation in [Activation(kind, *(0.3 for _ in PARAMETERS.get(kind, ())))]
    ),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_the_library_computes_the_same(workload: Conv2d | Gemm) -> None:
    inputs = random_inputs(workload, np.random.default_rng(0))
    peer = onnxruntime_layer(workload, inputs, 1)
    peer.run()
    np.testing.assert_allclose(peer.result(), reference(workload, inputs), rtol=1e-4, atol=1e-5)


def test_a_layer_has_its_time_or_a_reason() -> None:
    found = library_times.timed(WORKLOADS[2], 1)
    assert found["seconds"] > 0
    assert found["library"] == "onnxruntime"
    assert library_times.timed(QConv2d(1, 7, 7, 8, 8, 3, 3), 1)["seconds"] > 0
    assert "why" in library_times.timed(QConv2d(1, 7, 7, 8, 8, 3, 3, out_dtype="int32"), 1)


def test_another_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = {
        "target": targets.to_json(CATALOGUE["rpi4"]),
        "threads": 1,
        "workloads": [to_json(WORKLOADS[0])],
    }
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request))
    monkeypatch.setattr("sys.argv", ["library_times", str(file)])
    monkeypatch.setattr("bench.library_times.pin", lambda threads: None)
    monkeypatch.setattr("bench.library_times.limit_threads", lambda threads: None)
    with pytest.raises(SystemExit, match=r"rpi4 .* is not this machine"):
        library_times.main()
