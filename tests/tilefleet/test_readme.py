"""The README, typed from top to bottom, on a model that is small and has SqueezeNet's input and output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, save
from typed_page import Typist, type_page

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(1800)


def small() -> ModelProto:
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (8, 3, 3, 3)), ("v", (1000, 8, 1, 1)))
    ]
    nodes = [
        helper.make_node("Conv", ["data_0", "w"], ["c"], strides=[16, 16]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Conv", ["p", "v"], ["s"]),
        helper.make_node("Softmax", ["s"], ["softmaxout_1"], axis=1),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("data_0", (1, 3, 224, 224)), ("softmaxout_1", (1, 1000, 1, 1)))
    ]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.skipif(
    not shutil.which("qemu-ppc64le") and os.environ.get("CI") != "true", reason="needs qemu-user"
)
def test_all_commands_can_be_typed_from_top_to_bottom(tmp_path: Path) -> None:
    folder, model = tmp_path / "tilefleet", tmp_path / "small.onnx"
    folder.mkdir()
    save(small(), model)
    # So that `make demo` finds nothing to install, which would be from the folder of links.
    subprocess.run(["make", "setup"], cwd=ROOT, check=True, capture_output=True, timeout=600)
    for entry in ROOT.iterdir():  # what the commands make stays out of the real folder
        if entry.name not in (".tilefleet", ".git", "build", "demo-report.json"):
            (folder / entry.name).symlink_to(entry)
    environment = {
        **os.environ,
        "TILEFLEET_HOME": str(tmp_path / "home"),
        # What the page says for less time, and another model than SqueezeNet.
        "DEMO_SECONDS": "40",
        "MODEL": str(model),
    }
    environment.pop("TILEFLEET_URL", None)
    typist = Typist(folder, environment)

    def after(command: str) -> None:
        if command == "make demo":
            shutil.copy(model, folder / ".tilefleet/demo/light_squeezenet.onnx")

    # Whatever runs already may have the usual port.
    typist.type('tilefleet() { command tilefleet ${1/%up/up --port 0} "${@:2}"; }')
    try:
        type_page(typist, ROOT / "README.md", folder, after)
        said = typist.said
        assert re.search(r"^tuned +[\d.]+ +1\.00$", said["make demo"], re.M), said["make demo"]
        assert re.search(
            r"^job 1 done after", said["tilefleet submit squeezenet.onnx --seconds 45 --watch"], re.M
        )
        assert said["python use.py"] == "(1, 1000, 1, 1)\n"
        assert said["tilefleet submit squeezenet.onnx --target rpi4 --trials 40"].startswith("job 1; follow")
        assert re.search(r"^power10-sim +power10 +simulated ", said["tilefleet boards"], re.M)
        assert re.search(r"^3 +squeezenet.onnx +rpi4 ", said["tilefleet jobs"], re.M)
        assert "new kernel" in said["tilefleet boards history rpi4-sim-2"]
        assert "checked on board rpi4-sim" in said["tilefleet run squeezenet.onnx --board rpi4-sim"]
        assert "lines in the log" in said["python tune.py"]
    finally:
        for home in (tmp_path / "home", folder / ".tilefleet/fleet"):
            if (home / "url").exists():
                typist.type(f"TILEFLEET_HOME={home} tilefleet stop")
        typist.close()
