"""The commands read models within limits of time and memory, also where C code reads."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilefleet.bounded_read import read_once
from tilefleet.errors import TilefleetError

COMMAND = """
import sys
from tilefleet import bounded_read
from tilefleet.cli import main
bounded_read.TIMEOUT_S, bounded_read.GRACE_S = 3.0, 1.0
{more}
main()
"""


def save(path, nodes, constants):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(made, path)
    return path


@pytest.fixture
def endless(tmp_path):
    """A constant text and a pattern that take longer than the sun will shine."""
    text = numpy_helper.from_array(np.array(["a" * 60 + "!"], object), "text")
    nodes = [
        helper.make_node("RegexFullMatch", ["text"], ["m"], pattern="(a+)+$"),
        helper.make_node("Cast", ["m"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    return save(tmp_path / "endless.onnx", nodes, [text])


def said_by(folder, model, more=""):
    """Standard error of ``check`` and ``build``; nothing is left behind."""
    log, module = folder / "log.jsonl", folder / "m.so"
    log.write_text("")
    found = []
    for words in (["check", model], ["build", model, "-o", module]):
        arguments = [*map(str, words), "--log", str(log), "--target", "x86-avx2"]
        program = [sys.executable, "-c", COMMAND.format(more=more), *arguments]
        done = subprocess.run(program, capture_output=True, text=True, timeout=120)
        assert done.returncode != 0
        found.append([line for line in done.stderr.splitlines() if "Warning" not in line])
    assert {path.name for path in folder.iterdir()} == {"log.jsonl", model.name}
    return found


def test_a_model_that_takes_for_ever_is_refused(tmp_path, endless):
    words = f"tilefleet: {endless}: reading it took more than 3 s"
    assert said_by(tmp_path, endless) == [[words], [words]]


def test_what_cannot_be_interrupted_is_killed(tmp_path, endless):
    deaf = "import signal; signal.signal = lambda *_: None; signal.pthread_sigmask(0, [signal.SIGUSR1])"
    words = f"tilefleet: {endless}: reading it took more than 3 s"
    assert said_by(tmp_path, endless, deaf) == [[words], [words]]


def test_memory_is_limited_and_given_back(tmp_path, monkeypatch):
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr("tilefleet.bounded_read.MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr("compiler.intake.extract.extract", lambda *_: np.ones(1 << 28))
    with pytest.raises(TilefleetError, match="more than 0 GB of memory"):
        read_once(tmp_path / "m.onnx", tmp_path / "m.onnx", [])
    assert resource.getrlimit(resource.RLIMIT_AS) == before
