"""A model as a wheel: pip installs it, and Python runs it with NumPy alone."""

import json
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
import tvm
from c_models import MODELS
from test_c_library import TARGET
from tiny_models import model, node, save
from tvm import relax
from typer.testing import CliRunner

from kernels.target import CATALOGUE
from tilefleet.cli import app
from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from tuner.clibrary.toolchain import ToolError, glibc_of

pytestmark = [pytest.mark.usefixtures("avx2"), pytest.mark.timeout(300)]

CALLS = """
import sys, json, multiprocessing
from concurrent.futures import ThreadPoolExecutor
import numpy as np, Small as net

def child(x):
    return [each.tobytes() for each in net.run(x)]

data = np.load("x.npy")
outputs = net.run(data)
np.savez("y.npz", *outputs)
with ThreadPoolExecutor(3) as pool:
    for found in pool.map(lambda _: net.run(x=np.asfortranarray(data)), range(12)):
        assert [each.tobytes() for each in found] == [each.tobytes() for each in outputs]
with multiprocessing.get_context("fork").Pool(1) as forked:
    assert forked.apply(child, [data]) == [each.tobytes() for each in outputs]

def why(*inputs, **named):
    try:
        net.run(*inputs, **named)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"

wrong = [why(), why(data, data), why(y=data), why(data, x=data)]
wrong += [why(data[0]), why(data.astype(float)), why([1])]
known = {name.partition(".")[0] for name in sys.modules}
print(json.dumps({
    "loaded": sorted(known & {"tvm", "onnx", "tilefleet", "tuner"}),
    "threads": net.THREADS,
    "inputs": net.INPUTS,
    "outputs": [port.name for port in net.OUTPUTS],
    "wrong": wrong,
}))
"""


def build(tmp_path, made, *more):
    path, log = save(tmp_path, made), tmp_path / "log.jsonl"
    log.write_text("")
    words = ["build", path, "--log", log, "--as", "wheel", "-o", tmp_path / "out", *more]
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture
def python(tmp_path):
    """An interpreter that has NumPy alone, from where this one has it, and what installs into it."""
    home = tmp_path / "venv"
    venv.create(home, symlinks=True)
    site = next((home / "lib").glob("python3*")) / "site-packages"
    for part in Path(np.__file__).parents[1].glob("numpy*"):
        (site / part.name).symlink_to(part)
    interpreter = home / "bin" / "python"

    def install(wheel):
        pip = [sys.executable, "-m", "pip", "--python", interpreter, "install", "-q", "--no-index"]
        subprocess.run([*pip, wheel], check=True)

    return interpreter, install


def test_pip_installs_it_and_it_computes_what_the_module_does(tmp_path, python):
    words = ("--name", "Small", "--threads", "2", "--target", "x86-avx2")
    done = build(tmp_path, MODELS["convolutions"](), *words)
    assert done.exit_code == 0, done.output
    (wheel,) = (tmp_path / "out").glob("*.whl")
    assert wheel.name.endswith("-py3-none-manylinux_2_17_x86_64.whl")
    assert wheel.name in done.output
    assert json.loads((tmp_path / "out" / "Small.json").read_text())["variants"][0]["checked"]
    interpreter, install = python
    install(wheel)
    data = np.random.default_rng().standard_normal((1, 5, 17, 19)).astype(np.float32)
    np.save(tmp_path / "x.npy", data)
    ran = subprocess.run([interpreter, "-c", CALLS], cwd=tmp_path, capture_output=True, text=True, env={})
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["loaded"] == []
    assert found["threads"] == 2
    assert found["inputs"] == [["x", [1, 5, 17, 19], "float32"]]
    assert found["outputs"] == ["y", "z", "d", "flat"]
    missing, many, other, twice, shape, kind, listed = found["wrong"]
    assert missing == "TypeError: no value for input 'x'; the model has 'x'"
    assert many == "TypeError: 2 inputs were given, and the model has 1: 'x'"
    assert other == "TypeError: the model has no input 'y', only 'x'"
    assert twice == "TypeError: input 'x' was given twice"
    assert shape == "ValueError: input 'x' has shape (5, 17, 19), and the model takes (1, 5, 17, 19)"
    assert kind.startswith("TypeError: input 'x' is float64, and the model takes float32: use .astype")
    assert listed.startswith("ValueError: input 'x' has shape (1,)")

    executable, _ = build_model(tmp_path / "model.onnx", {}, TARGET, 2)
    expected = run(relax.VirtualMachine(executable, tvm.cpu())["main"], {"x": data})
    with np.load(tmp_path / "y.npz") as saved:
        assert [each.tobytes() for each in saved.values()] == [each.tobytes() for each in expected]


def test_the_same_model_makes_the_same_wheel_and_what_cannot_be_one_is_refused(tmp_path):
    made = model([node("Relu", ["x"], "y")], {"x": (3, 5)}, ["y"])
    wheels = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        done = build(folder, made, "--target", "x86-avx2", "--no-check")
        assert done.exit_code == 0, done.output
        (wheel,) = (folder / "out").glob("model-*.whl")
        wheels.append((wheel.name, wheel.read_bytes()))
    assert wheels[0] == wheels[1]
    assert "word of Python" in build(tmp_path, made, "--name", "class").output
    assert "weights in it" in build(tmp_path, made, "--weights", "file").output


def test_each_machine_with_a_python_has_a_tag():
    tags = [glibc_of(CATALOGUE[name]).machine for name in ("x86-avx2", "rpi4", "power10", "riscv-k1")]
    assert tags == ["x86_64", "aarch64", "ppc64le", "riscv64"]
    hexagon = next(target for target in CATALOGUE.values() if target.triple.startswith("hexagon"))
    with pytest.raises(ToolError, match="no Python"):
        glibc_of(hexagon)
