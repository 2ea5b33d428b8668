"""Runtimes in processes of their own and side by side, on a model of two layers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto
from tiny_models import model, node, save

from compiler.readers.model_file import read_as_written
from kernels import target as targets
from tuner.runtimes.child import build_in_child, define_in_child
from tuner.runtimes.engines import LOAD, Unable
from tuner.runtimes.pages import present_bytes
from tuner.runtimes.prepare import PACKAGES, installed, prepared
from worker.measure.host import host_target


@pytest.fixture
def net() -> ModelProto:
    nodes = [node("Conv", ["x", "w"], "c", pads=[1, 1, 1, 1]), node("Relu", ["c"], "y")]
    return model(nodes, {"x": (1, 3, 9, 9)}, ["y"], {"w": (8, 3, 3, 3)})


def asked(module: str, folder: Path, **request: object) -> dict:
    path = folder / "request.json"
    path.write_text(json.dumps(request))
    command = [sys.executable, "-m", f"tuner.runtimes.{module}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    return json.loads(done.stdout)


def test_a_process_of_one_runtime_has_nothing_of_ours() -> None:
    text = "import sys, tuner.runtimes.alone; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert {"tuner", "numpy"} <= {*done.stdout.split()}
    assert not {"tvm", "onnx", "kernels", "worker", "tilefleet", "onnxruntime"} & {*done.stdout.split()}


def test_every_runtime_computes_the_model_alone_and_in_turns(net: ModelProto, tmp_path: Path) -> None:
    path = save(tmp_path, net)
    about = {"model": str(path), "shapes": None}
    files = {each: str(tmp_path / f"{each}.npz") for each in ("feeds", "values", "nudged")}
    found = define_in_child({**about, **files})
    assert (found["inputs"], found["outputs"], found["why"]) == (["x"], ["y"], "")
    with np.load(files["values"]) as values:
        right = values["arr_0"]

    built = {"threads": 1, "target": targets.to_json(host_target()), "records": [], "relayouts": []}
    engines = []
    for how in ("default", "default library", "library"):
        folder = tmp_path / how
        folder.mkdir()
        more = {"numerics": "exact-integers", "how": how, "folder": str(folder)}
        made = build_in_child({**about, **built, **more})
        engine = "library" if how.endswith("library") else "tvm"
        engines.append({"name": how, "engine": engine, "path": made["path"], "inputs": made["inputs"]})
    with np.load(files["feeds"]) as file:
        feeds = {"x": file["arr_0"]}
    for name in installed():
        folder = tmp_path / name
        folder.mkdir()
        if name == "litert":
            with pytest.raises(Unable, match="reads no ONNX"):
                prepared(name, path, read_as_written(path, None), feeds, folder)
            continue
        file = prepared(name, path, read_as_written(path, None), feeds, folder)
        engines.append({"name": name, "engine": name, "path": str(file), "inputs": ["x"]})
    assert "onnxruntime" in {each["name"] for each in engines}
    common = {"feeds": files["feeds"], "names": ["x"], "threads": 1}
    for each in engines:
        outputs = tmp_path / "outputs.npz"
        took = asked("alone", tmp_path, **each, **common, outputs=str(outputs))
        with np.load(outputs) as values:
            assert np.abs(values["arr_0"].reshape(right.shape) - right).max() < 1e-4, each["name"]
        assert 0 < took["call"] < took["start"]
        assert 1e6 < took["resident_bytes"] < 1e10
    seconds = asked("together", tmp_path, **common, engines=engines, rounds=3)
    assert seconds.keys() == {each["name"] for each in engines}
    assert all(len(each) == 3 and min(each) > 0 for each in seconds.values())


def test_present_pages_are_those_that_were_written() -> None:
    before = present_bytes()
    held = np.ones(40 << 20, np.uint8)  # more than malloc keeps for later in any process (32 MB)
    reserved = np.empty(200 << 20, np.uint8)
    after = present_bytes()
    if before is None or after is None:
        pytest.skip("the kernel does not show this process its pages")
    assert held.nbytes <= after - before < held.nbytes + (4 << 20)
    assert reserved.nbytes == 200 << 20


def test_every_package_has_an_adapter() -> None:
    assert PACKAGES.keys() <= LOAD.keys()
    assert installed().keys() <= PACKAGES.keys()
