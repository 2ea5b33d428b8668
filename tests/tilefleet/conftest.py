"""One real service for all tests of this folder that need one; they share a worker of pytest-xdist."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from browser import chromium, page, url
from onnx import TensorProto, helper, numpy_helper
from shell import Shell

from tilefleet import Client

sys.path.insert(0, str(Path(__file__).parents[1] / "tuner"))  # its makers of models

__all__ = ["chromium", "page", "url"]
START_S = 240
"""The very first start on a machine builds the board agent and zig's C library."""


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """``tilefleet up`` as a user starts it; its state folder."""
    home = tmp_path_factory.mktemp("home")
    command = [sys.executable, "-m", "tilefleet", "up", "--port", "0"]
    with (home / "up.log").open("w") as log:
        server = subprocess.Popen(
            command, env={**os.environ, "TILEFLEET_HOME": str(home)}, stdout=log, stderr=log
        )
        try:
            deadline = time.monotonic() + START_S
            while not (home / "url").exists():
                assert server.poll() is None, (home / "up.log").read_text()
                assert time.monotonic() < deadline, "the service did not start in time"
                time.sleep(0.1)
            yield home
        finally:
            if server.poll() is None:
                assert f"stopped process {server.pid}" in Shell(home)("stop")
            assert server.wait(120) == 0, (home / "up.log").read_text()
            assert not (home / "url").exists()


@pytest.fixture
def shell(service: Path) -> Shell:
    """The command line as a user of that service has it."""
    return Shell(service)


@pytest.fixture
def client(service: Path) -> Iterator[Client]:
    """A client that finds the server as commands do."""
    with Client((service / "url").read_text().strip()) as client:
        yield client


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions with bias and relu, one of them twice, and a fully connected layer."""
    random = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) * 0.2, name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "w2", "b1"], ["c2"], name="second", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"], name="relu2"),
        helper.make_node("Conv", ["r2", "w3", "b1"], ["c3"], name="third", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c3"], ["r3"], name="relu3"),
        helper.make_node("GlobalAveragePool", ["r3"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "w4"], ["y"], name="dense", transB=1),
    ]
    weights = [weight("w1", 16, 8, 3, 3), weight("w2", 16, 16, 3, 3), weight("w3", 16, 16, 3, 3)]
    weights += [weight("b1", 16), weight("w4", 10, 16)]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 18, 18])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    onnx.save(model, path)
    return path
