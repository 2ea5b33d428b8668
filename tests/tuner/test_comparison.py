"""Built models beside their definition: right ones pass, wrong ones are refused by the tensor's name."""

import os
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import TensorProto
from tiny_models import model, node, save
from tvm import relax
from typer.testing import CliRunner

from compiler.readers.model_file import read_as_written
from kernels.target import CATALOGUE
from tilefleet.cli import app
from tuner.backend import apply
from tuner.backend.apply import build_model, export
from tuner.backend.comparison import Build, OtherMachine, check, check_module, locate
from tuner.backend.definition import LEAST_SHARE, Undefined, define
from tuner.backend.difference import compared
from tuner.backend.draws import random_feeds
from tuner.backend.error import differs_in_kind, error_of
from tuner.backend.evaluation import FAR
from worker.measure.host import host_target

PADS = [1, 1, 1, 1]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Three convolutions, of which the second can be spoiled by its 24 filters."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=PADS),
        node("Relu", ["a"], "b"),
        node("Conv", ["b", "v"], "c", pads=PADS),
        node("Relu", ["c"], "d"),
        node("Conv", ["d", "u"], "e", pads=PADS),
        node("GlobalAveragePool", ["e"], "y"),
    ]
    weights = {"w": (16, 8, 3, 3), "v": (24, 16, 3, 3), "u": (16, 24, 3, 3)}
    folder = tmp_path_factory.mktemp("model")
    return save(folder, model(nodes, {"x": (1, 8, 14, 14)}, ["y"], weights))


@pytest.fixture
def spoiled(monkeypatch):
    """Builds get weights of the second layer that are a little off."""
    packed = apply.constants_of

    def spoil(product, config, target):
        weights, *rest = packed(product, config, target)
        return [weights * np.float32(1.01) if product.workload.out_c == 24 else weights, *rest]

    monkeypatch.setattr(apply, "constants_of", spoil)


def built(path, target=None):
    executable, manifest = build_model(path, {}, target or host_target())
    made = Build(str(path), None, manifest.target, 1, manifest.configs, manifest.tolerance)
    return executable, made


def main_of(executable):
    return lambda: relax.VirtualMachine(executable, tvm.cpu())["main"]


def test_a_right_model_is_right_in_this_process_and_as_a_file(path, tmp_path):
    executable, made = built(path)
    here = check(main_of(executable), made)
    assert (here.checked, here.wrong, here.skipped) == (True, "", "")
    assert 0 < here.errors["y"] < 1e-5
    assert "onnx" in here.by
    export(executable, tmp_path / "m.so")
    assert check_module(tmp_path / "m.so", made).to_json()["checked"]


def test_the_first_wrong_tensor_is_named(path, spoiled):
    executable, made = built(path)
    found = check(main_of(executable), made)
    assert not found.checked
    assert found.wrong.startswith("y differs by ")
    # Of b, which is right, and of e and y, which follow from it, nothing is said.
    assert locate(made).startswith("d differs by 0.01")


def test_a_module_that_cannot_run_is_wrong(path, tmp_path):
    _, made = built(path)
    damaged = tmp_path / "m.so"
    damaged.write_bytes(b"no module")
    assert check_module(damaged, made).wrong.startswith("the module does not run: ")


def test_code_for_another_machine_is_not_checked_here(path, tmp_path):
    executable, made = built(path, CATALOGUE["rpi4"])
    export(executable, tmp_path / "m.so")
    with pytest.raises(OtherMachine, match="rpi4 is another machine than this"):
        check_module(tmp_path / "m.so", made)


def test_a_definition_that_takes_too_long_is_no_pass(path, tmp_path):
    executable, made = built(path)
    export(executable, tmp_path / "m.so")
    found = check_module(tmp_path / "m.so", made, deadline_s=0.01)
    assert (found.checked, found.wrong) == (False, "")
    assert "not computed within 0.01 s" in found.skipped
    assert found.to_json()["checked"] is False


def test_a_model_without_definition_is_no_pass():
    unknown = model([node("Nonsense", ["x"], "y")], {"x": (1, 2)}, ["y"])
    with pytest.raises(Undefined, match="cannot be computed"):
        define(unknown, {"x": np.zeros((1, 2), np.float32)})


def test_onnx_itself_says_what_a_model_is_where_onnxruntime_is_not_installed(path, monkeypatch, tmp_path):
    made, feeds = read_as_written(path), {"x": np.ones((1, 8, 14, 14), np.float32)}
    first = define(made, feeds, ["b"])
    assert 0 < error_of(first.nudged["b"], first.values["b"]) < 1e-4
    assert list(first.values) == ["y", "b"]
    # A folder that hides it, as a module of that name that cannot be found.
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['onnxruntime'] = None\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", ".")]))
    second = define(made, feeds, ["b"])
    assert second.by.startswith("onnx ")
    for name, value in first.values.items():
        np.testing.assert_allclose(second.values[name], value, rtol=1e-4, atol=1e-4)


def test_what_a_model_itself_makes_of_little_differences_is_allowed(tmp_path):
    """Rounding moves sums of a thousand by a ten-thousandth, and a tanh of those near zero by as much."""
    nodes = [node("Conv", ["x", "w"], "a", pads=PADS), node("Tanh", ["a"], "y")]
    steep = save(tmp_path, model(nodes, {"x": (1, 64, 9, 9)}, ["y"], {"w": (16, 64, 3, 3)}))
    executable, made = built(steep)
    found = check(main_of(executable), made)
    assert found.checked
    assert found.allowed["y"] > 10 * made.tolerance


@pytest.mark.parametrize("away", [0.0, 1.0])
def test_a_model_of_integers_alone_says_little_differences_by_its_weights(away):
    # Of numbers near 1 the digits that differ are left, where 1 is taken away.
    arrays = {"table": 1 + 1e-6 * np.arange(40.0).reshape(5, 8), "away": np.array(away)}
    nodes = [node("Gather", ["table", "ids"], "rows"), node("Sub", ["rows", "away"], "y")]
    made = model(
        nodes,
        {"ids": (6,)},
        ["y"],
        {name: array.astype(np.float32) for name, array in arrays.items()},
        dtype=TensorProto.INT64,
    )
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    defined = define(made, {"ids": np.array([0, 4, 1, 3, 2, 2])})
    error = error_of(defined.nudged["y"], defined.values["y"])
    assert error == pytest.approx(FAR, rel=1e-3) if away else 0 < error < 2e-5


def test_types_and_shapes_are_compared():
    value = np.zeros((2, 3), np.float32)
    assert differs_in_kind(value, value) == ""
    assert differs_in_kind(value, value.astype(np.int64)) == "is float32 and should be int64"
    assert "should have [3, 2]" in differs_in_kind(value, value.T)


def test_errors_of_numbers_that_are_none_and_of_integers():
    right = np.array([1.0, -4.0, np.nan, np.inf])
    assert error_of(right, right) == 0
    assert error_of(np.array([1.0, -3.0, np.nan, np.inf]), right) == 0.25
    assert error_of(np.array([1.0, -4.0, 0.0, np.inf]), right) == 1
    assert error_of(np.array([1.0, np.nan, np.nan, np.inf]), right) == 1
    assert error_of(np.array([5, 6, 7, 9]), np.array([5, 6, 7, 8])) == 0.25
    assert error_of(np.array([254], np.uint8), np.array([255], np.uint8)) == 1 / 255
    assert error_of(np.zeros(2), np.zeros(2)) == 0
    assert error_of(np.zeros(0), np.zeros(0)) == 0


def test_random_inputs_fit_their_types():
    inputs = {"image": ((50, 4), "uint8"), "tokens": ((9,), "int64"), "mask": ((9,), "bool")}
    feeds = random_feeds({**inputs, "x": ((2, 3), "float16")})
    assert {name: str(value.dtype) for name, value in feeds.items()} == {
        **{name: dtype for name, (_, dtype) in inputs.items()},
        "x": "float16",
    }
    assert feeds["image"].max() > 127
    assert set(feeds["tokens"]) <= {0, 1}


def test_build_writes_no_wrong_module(path, spoiled, tmp_path):
    log, module = tmp_path / "log.jsonl", tmp_path / "out" / "m.so"
    log.write_text("")
    module.parent.mkdir()
    arguments = ["build", str(path), "--log", str(log), "-o", str(module)]
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 1
    assert "the built module is wrong and was not written: y differs by" in refused.stderr
    assert list(module.parent.iterdir()) == []
    written = CliRunner().invoke(app, [*arguments, "--no-check", "--json"])
    assert (written.exit_code, module.exists()) == (0, True)
    manifest = Path(f"{module}.json").read_text()
    assert '"checked": false' in manifest
    assert "--no-check was given" in manifest


def test_build_says_that_it_checked(path, tmp_path):
    log, module = tmp_path / "log.jsonl", tmp_path / "m.so"
    log.write_text("")
    done = CliRunner().invoke(app, ["build", str(path), "--log", str(log), "-o", str(module)])
    assert done.exit_code == 0, done.output
    assert "checked on this machine: y differs by" in done.stdout
    assert '"checked": true' in Path(f"{module}.json").read_text()


def test_shares_that_are_all_tiny_are_compared_as_what_they_are(tmp_path):
    """onnxruntime's own are off by 1e-7 there."""
    bias = np.full(8, -17, np.float32)
    nodes = [node("Add", ["x", "b"], "a"), node("Sigmoid", ["a"], "s"), node("Reshape", ["s", "two"], "y")]
    made = model(nodes, {"x": (1, 8)}, ["y"], {"b": bias, "two": np.array([2, 4])})
    feeds = {"x": np.zeros((1, 8), np.float32)}
    defined = define(made, feeds)
    assert defined.least == {"y": LEAST_SHARE}
    exact = (1 / (1 + np.exp(17.0)) * np.ones((2, 4))).astype(np.float32)
    assert not compared({"y": exact}, defined, 1e-4).wrong
    assert compared({"y": exact + np.float32(1e-6)}, defined, 1e-4).wrong
    assert not define(model(nodes[:1], {"x": (1, 8)}, ["a"], {"b": bias}), feeds).least
