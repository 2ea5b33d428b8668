"""``tilefleet build --check-input``: a build is compared on the user's own data as well."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from onnx import TensorProto
from tiny_models import model, node, save
from typer.testing import CliRunner

from tilefleet.cli import app
from tuner.backend.given import WrongInputs, given_inputs

IDS = np.array([[3, 0, 49, 7]])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Rows of a table by ids, times weights."""
    (tmp_path / "log.jsonl").write_text("")
    nodes = [node("Gather", ["table", "ids"], "rows"), node("MatMul", ["rows", "w"], "y")]
    made = model(nodes, {"ids": (1, 4)}, ["y"], {"table": (50, 8), "w": (8, 8)}, dtype=TensorProto.INT64)
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    return save(tmp_path, made)


def build(path: Path, *more: object, form: str = "module", **arrays: object) -> Result:
    file = path.with_name("mine.npz")
    np.savez(file, **arrays)  # type: ignore[arg-type]
    output = path.with_name("m.so") if form == "module" else path.with_name("lib")
    words = ["build", path, "--log", path.with_name("log.jsonl"), "--as", form, "-o", output]
    return CliRunner().invoke(app, [*map(str, [*words, "--check-input", file, *more])])


@pytest.mark.parametrize("form", ["module", "c"])
def test_a_build_is_compared_on_them(table: Path, form: str) -> None:
    done = build(table, form=form, ids=IDS)
    assert done.exit_code == 0, done.output
    assert "checked on this machine: y differs by" in done.output


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"tokens": IDS}, "the model has no input 'tokens'; it has: ids"),
        ({}, "there are no data for input 'ids'"),
        ({"ids": IDS.astype(np.int32)}, "input 'ids' is int32 and should be int64: .astype('int64') does it"),
        ({"ids": IDS[:, :3]}, "input 'ids' has the shape [1, 3] and should have [1, 4]"),
        ({"ids": IDS + 1}, "input 'ids' holds 50 at [0, 2], and there are the rows of 'table' from 0 to 49"),
    ],
)
def test_what_the_model_does_not_take_is_said_before_anything_is_built(
    table: Path, monkeypatch: pytest.MonkeyPatch, arrays: dict, words: str
) -> None:
    monkeypatch.setattr("tuner.backend.shape_sets.build_sets", None)
    refused = build(table, **arrays)
    assert refused.exit_code == 1
    assert words in refused.stderr
    assert not table.with_name("m.so").exists()


def test_what_is_no_file_of_arrays_and_no_check(table: Path) -> None:
    text = table.with_name("log.jsonl")
    assert "is no .npz file of plain arrays" in build(table, "--check-input", text, ids=IDS).stderr
    assert "--no-check runs it on no inputs" in build(table, "--no-check", ids=IDS).stderr


def test_a_module_that_is_wrong_for_them_alone_is_not_written(tmp_path: Path) -> None:
    """A large number is one that no draw has."""
    (tmp_path / "log.jsonl").write_text("")
    path = save(
        tmp_path, model([node("Conv", ["x", "w"], "y")], {"x": (1, 3, 5, 5)}, ["y"], {"w": (8, 3, 3, 3)})
    )
    x = np.zeros((1, 3, 5, 5), np.float32)
    spoiling = tmp_path / "spoiling"
    spoiling.mkdir()
    (spoiling / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'tuner.backend.evaluation' in sys.orig_argv:\n"
        "    import numpy as np\n"
        "    saved = np.savez\n"
        "    def spoilt(path, *values):\n"
        "        own = 'values-0' in str(path) or 'nudged-0' in str(path)\n"
        "        saved(path, *(value + np.float32(own) for value in values))\n"
        "    np.savez = spoilt\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(spoiling)
        refused = build(path, x=x)
    assert refused.exit_code == 1
    assert "with mine.npz: y differs by" in refused.stderr
    assert not path.with_name("m.so").exists()


def test_they_belong_to_the_set_of_shapes_that_they_fit(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("")
    made = model([node("Relu", ["x"], "y")], {"x": (1, "n")}, ["y"])
    path = save(tmp_path, made)
    sets = ["--shape", "x=1,4", "--shape", "x=1,6"]
    own = tmp_path / "mine.npz"
    done = build(path, *sets, x=np.ones((1, 6), np.float32))
    assert done.exit_code == 0, done.output
    refused = build(path, *sets, x=np.ones((1, 5), np.float32))
    assert "should have [1, 4], and so on for all 2 sets of shapes" in refused.stderr
    np.savez(own, x=np.ones((1, 37), np.float32))
    (found,) = given_inputs(path, [{"x": [1, "1..64"]}], [own])
    assert (found.number, found.length, found.shapes) == (0, 37, {"x": [1, 37]})
    np.savez(own, x=np.ones((1, 65), np.float32))
    with pytest.raises(WrongInputs, match=r"has the shape \[1, 65\] and should have \[1, 64\]"):
        given_inputs(path, [{"x": [1, "1..64"]}], [own])
    assert json.loads(path.with_name("m.so.json").read_text())["checked"]
