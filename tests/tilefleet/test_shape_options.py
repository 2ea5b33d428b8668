"""``--shape``: what it says, and commands that take several sets of shapes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from click.testing import Result
from shell import run_module
from tiny_models import model, node, save
from typer.testing import CliRunner

from tilefleet.cli import app
from tilefleet.commands.shape_options import read_sets

A, B = {"x": [1, 128]}, {"x": [1, 256]}
PAIRS = [{"ids": [1, 8], "mask": [1, 8]}, {"ids": [2, 4], "mask": [2, 4]}]


@pytest.mark.parametrize(
    ("texts", "sets"),
    [
        (None, []),
        (["x=1,128"], [A]),
        (["x=1,128", "y=7"], [{**A, "y": [7]}]),
        (["x=1,128", "x=1,256"], [A, B]),
        (["x=1,128", "x=1,128"], [A]),
        (["x=1,128", "y=7", "x=1,256"], [{"y": [7], **A}, {"y": [7], **B}]),
        (["ids=1,8 mask=1,8", "ids=2,4 mask=2,4"], PAIRS),
        (["  ids=1,8   mask=1,8 "], PAIRS[:1]),
        (["my input=3 other=4,5"], [{"my input": [3], "other": [4, 5]}]),
        (["a=b=1,2"], [{"a=b": [1, 2]}]),
        (["x=1,128..256:128"], [A, B]),
        (["x=1,2..4", "y=7"], [{"y": [7], "x": [1, n]} for n in (2, 3, 4)]),
        (["ids=2,4..8:2 mask=2,4..8:2"], [{"ids": [2, n], "mask": [2, n]} for n in (4, 6, 8)]),
        (["x=1..3,5..9:2"], [{"x": [1, 5]}, {"x": [2, 7]}, {"x": [3, 9]}]),
        (["x=5..5"], [{"x": [5]}]),
        (["x=1,1..512 y=1..512"], [{"x": [1, "1..512"], "y": ["1..512"]}]),
        (["x=1,1..5"], [{"x": [1, "1..5"]}]),
        (["x=1,1..5:1"], [{"x": [1, n]} for n in range(1, 6)]),
    ],
)
def test_what_is_one_set_and_what_several(texts: list[str] | None, sets: list[dict[str, list[int]]]) -> None:
    assert read_sets(texts) == sets


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["x=1,b"], "'x=1,b' is not like name=1,3,224,224"),
        ([""], "is not like"),
        (["x=1 x=2"], "is not like"),
        (["x=1,2 y"], "is not like"),
        (["ids=1,8", "mask=1,8", "ids=2,4", "mask=2,4"], "like --shape 'ids=1,8 mask=1,8'"),
        ([f"x={size}" for size in range(1, 99)], "at most 64 sets"),
        (
            ["x=1,1..512:1"],
            "at most 64 sets of input shapes, and 'x=1,1..512:1' is 512: take a range in steps",
        ),
        (["x=1,1..512", "x=1,600"], "has one set of them"),
        (["x=1,1..512 y=1,1..500"], "one size can be left open"),
        (["x=1..512:16"], "'1..512:16' does not go from 1 to 512 in steps of 16"),
        (["x=9..8"], "does not go from 9 to 8"),
        (["x=1..4,1..3"], "ranges of 3 and 4 sizes, which go together"),
        (["x=1..4:0"], "does not go from 1 to 4 in steps of 0"),
        (["x=5..0"], "does not go from 5 to 0"),
        (["x=1..999999999999"], "nor a range that can be left open"),
    ],
)
def test_what_is_neither(texts: list[str], message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        read_sets(texts)


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    (tmp_path / "log.jsonl").write_text("")
    made = model(
        [node("MatMul", ["x", "w"], "h"), node("Relu", ["h"], "y")], {"x": ("n", 24)}, ["y"], {"w": (24, 40)}
    )
    return save(tmp_path, made)


def command(word: str, model: Path, *more: str) -> Result:
    shapes = ["--shape", "x=5,24", "--shape", "x=9,24"]
    return CliRunner().invoke(
        app, [word, str(model), "--log", str(model.with_name("log.jsonl")), *shapes, *more]
    )


def test_a_module_of_several_sets_is_built_and_checked(open_model: Path) -> None:
    file = open_model.with_name("m.so")
    done = command("build", open_model, "-o", str(file), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["layers"] == {"log": 0, "analysis": 2, "default": 0}
    said = json.loads(Path(f"{file}.json").read_text())
    assert [each["inputs"] for each in said["shapes"]] == [{"x": [5, 24]}, {"x": [9, 24]}]
    assert all(each["checked"] for each in (said, *said["shapes"]))
    data = np.random.default_rng().standard_normal((9, 24)).astype(np.float32)
    assert run_module(file, data)[0].shape == (9, 40)


def test_check_speaks_of_the_workloads_of_all_sets(open_model: Path) -> None:
    done = command("check", open_model, "--json")
    assert done.exit_code == 1
    products = [each for each in json.loads(done.stdout) if each["status"] == "missing"]
    assert len(products) == 2
    assert sum(each["share"] for each in products) == pytest.approx(1, abs=0.6)


def test_a_c_library_takes_several_sets_as_well(open_model: Path) -> None:
    folder = open_model.with_name("lib")
    done = command("build", open_model, "--as", "c", "-o", str(folder))
    assert done.exit_code == 0, done.output
    assert "_set_of(" in next(folder.glob("*.h")).read_text()
