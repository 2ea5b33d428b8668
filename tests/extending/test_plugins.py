"""A package of one file adds a kernel family, a strategy or a kind of board: that of docs/extending.md."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import recipes

from kernels.plugins import named, plugged
from tuner.search import strategies
from tuner.search.strategies.base import Strategy

ROOT = Path(__file__).parents[2]
SEEN = """
import json, sys
from kernels import registry, target
from kernels.workload.base import Gemm
from tuner.search import strategies
from worker.fleet.fleet_file import fleet_of
sys.path.insert(0, "tests/kernels")
import guarded

machine = target.CATALOGUE["x86-avx2"]
workload = Gemm(5, 24, 37)
family = registry.kernel("wide-row")
print(json.dumps({
    "applies": "wide-row" in [kernel.name for kernel in registry.applicable(workload, machine)],
    "columns": [config["columns"] for config in family.space(workload, machine)],
    "strategy": strategies.find("predicted").__module__,
    "board": fleet_of(["cage"]).boards[0].kind,
}))
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the page, installed into a folder by pip."""
    folder = tmp_path_factory.mktemp("lab")
    recipes.write("lab", folder)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--disable-pip-version-check", "--target", str(folder / "site")]
    done = subprocess.run([*command, str(folder / "lab")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def python(site: Path, code: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_an_installed_package_adds_a_family_a_strategy_and_a_kind_of_board(lab: Path) -> None:
    done = python(lab, SEEN)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen == {"applies": True, "columns": [4, 8], "strategy": "lab_strategy", "board": "cage"}


def test_the_plugin_may_be_imported_first(lab: Path) -> None:
    """Its own imports must not meet a registry that asks for it half-way."""
    code = "import lab_kernel, lab_strategy, lab_board; from tuner.search import strategies as s; "
    done = python(lab, code + "assert s.find('predicted') is lab_strategy.PredictedStrategy")
    assert done.returncode == 0, done.stderr


def test_a_family_of_one_file_computes_what_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernels.target import CATALOGUE
    from kernels.workload.base import RELU, Epilogue, Gemm
    from worker.measure.host import host_target

    recipes.write("lab", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "lab"))
    sys.path.insert(0, str(ROOT / "tests/kernels"))
    import guarded

    family = importlib.import_module("lab_kernel").WideRow()
    target = host_target()
    workload = Gemm(5, 48, 37, epilogue=Epilogue(bias=True, residual=True, clamp=RELU))
    for threads in (1, 3):
        for config in family.space(workload, target, threads=threads):
            assert guarded.error_of(family, workload, config, target, threads) < 1e-6
    assert family.why_not(Gemm(5, 41, 37), CATALOGUE["rpi4"]) == "its columns are no multiple of four"


def test_each_module_has_thirty_lines_beside_its_imports(tmp_path: Path) -> None:
    for path in recipes.write("lab/lab_", tmp_path):
        tree = ast.parse(path.read_text())
        own = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
        lines = [line for node in own for line in ast.unparse(node).splitlines()]
        count = sum(bool(line) and not line.lstrip().startswith("@") for line in lines)
        assert count <= 30, path.name


def test_a_strategy_by_module_and_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes.write("lab", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "lab"))
    monkeypatch.delitem(sys.modules, "lab_strategy", raising=False)
    for own in (
        "lab_strategy:PredictedStrategy",
        f"{tmp_path / 'lab' / 'lab_strategy.py'}:PredictedStrategy",
    ):
        with pytest.raises(ValueError, match="unknown strategy"):
            strategies.find(own)  # as a request would: it imports nothing
        assert strategies.find_or_import(own).name == "predicted"
    for name, why in {
        "lab_strategy:Nobody": "cannot be imported: AttributeError",
        str(tmp_path / "no.py:X"): "cannot be imported: FileNotFoundError",
        "nowhere_at_all:X": "No module named 'nowhere_at_all'",
        "kernels.space:Config": "is no Strategy; derive it from tuner.search.strategies.base.Strategy",
        "tuner.search.strategies.base:Strategy": "lacks suggest",
    }.items():
        with pytest.raises(ValueError, match=why):
            strategies.find_or_import(name)


def test_a_broken_entry_point_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    facts = tmp_path / "bad-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1\n")
    (facts / "entry_points.txt").write_text(
        "[tilefleet.strategies]\nbad = bad_plugin:Mine\n"
        "good = tuner.search.strategies.random:RandomStrategy\n"
    )
    (tmp_path / "bad_plugin.py").write_text("raise RuntimeError('out of order')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [strategy.name for strategy in plugged("tilefleet.strategies", Strategy)]
    assert found == ["random"]
    assert "tilefleet.strategies bad is left out" in caplog.text
    assert "RuntimeError: out of order" in caplog.text
    assert named("tuner.search.strategies.random:RandomStrategy", Strategy).name == "random"
