"""Each recipe of docs/extending.md does what it says. That of boards: tests/worker/test_board_kinds.py."""

from __future__ import annotations

import importlib
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import recipes
import tvm

import kernels.target
from compiler.ir.own_nodes import COMPUTED
from kernels import registry
from kernels.emit.compile import compile_object
from kernels.workload.base import RELU, Epilogue, Gemm
from server.http.dashboard_page import PATHS
from tuner.search.problem import Problem
from tuner.search.strategies import STRATEGIES, make
from tuner.search.strategies import register as register_strategy
from tuner.spec import Budget, TaskSpec
from tuner.states import JobState
from worker.fleet.drivers import sim_models
from worker.fleet.drivers.simulated import SimulatedBoard, why_no_emulator
from worker.fleet.fleet_file import fleet_of

TESTS = Path(__file__).parents[1]
for _folder in ("kernels", "tuner", "tuner/operators"):
    sys.path.insert(0, str(TESTS / _folder))

import formula_engine  # noqa: E402
import guarded  # noqa: E402
import one_operator  # noqa: E402
from memory_store import MemoryStore  # noqa: E402

AVX2 = kernels.target.CATALOGUE["x86-avx2"]
needs_avx2 = pytest.mark.skipif("avx2" not in Path("/proc/cpuinfo").read_text(), reason="needs AVX2 to run")
DASHBOARD = TESTS.parent / "dashboard"


def there_or_skip(reason: str | None) -> None:
    """Skip for want of a tool; on CI, where every tool must be there, fail."""
    if reason is not None:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)


@needs_avx2
@pytest.mark.parametrize("threads", [1, 3])
def test_a_kernel_family(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes.add("kernels/float/rowwise", "kernels.float", tmp_path, monkeypatch)
    kernel = importlib.import_module("kernels.float.rowwise.kernel").Rowwise()
    monkeypatch.setitem(registry.all_kernels(), kernel.name, registry.kernel("gemm"))  # puts back what was
    registry.register(kernel)
    workload = Gemm(12, 40, 37, epilogue=Epilogue(bias=True, residual=True, clamp=RELU))
    space = registry.search_space(workload, AVX2, threads=threads).of("rowwise")
    assert space is not None
    points = list(space)
    assert [config["rows"] for config in points] == [1, 2, 3, 4, 6, 12]
    assert registry.kernel("rowwise").recommend(workload, AVX2, threads=threads) in points
    for config in points:
        assert guarded.error_of(kernel, workload, config, AVX2, threads) < 1e-6
    reason = kernel.why_not(Gemm(12, 41, 37), AVX2)
    assert reason == "its columns fill no whole vectors"


def test_a_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes.write("lab/lab_strategy", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "lab"))
    monkeypatch.setitem(STRATEGIES, "predicted", STRATEGIES["random"])
    register_strategy(importlib.import_module("lab_strategy").PredictedStrategy)
    problem = Problem.of(formula_engine.TINY, AVX2)
    first, *rest = make("predicted", problem, random.Random(0)).ask(20)
    assert first == problem.seeds[0]
    assert [problem.predict(each) for each in rest] == sorted(problem.predict(each) for each in rest)
    spec = formula_engine.job(
        strategy="predicted", tasks=(TaskSpec(1, formula_engine.TINY, 1),), budget=Budget(trials=12)
    )
    engine = formula_engine.FakeEngine()
    assert formula_engine.run(spec, engine, MemoryStore()) is JobState.DONE
    asked = make("predicted", problem, random.Random(0)).ask(12)
    assert {candidate.config for candidate in engine.evaluated} == set(asked)


@pytest.fixture
def rock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The target of the recipe, which is in the catalogue and has a simulated board."""
    recipes.add("kernels/targets", "kernels.targets", tmp_path, monkeypatch)
    (target,) = importlib.import_module("kernels.targets.rock").TARGETS
    model = eval(recipes.blocks()["SIM_MODELS"], vars(sim_models))
    monkeypatch.setitem(kernels.target.CATALOGUE, target.name, target)
    monkeypatch.setitem(sim_models.SIM_MODELS, "rock-sim", model)  # type: ignore[arg-type]  # a Mapping to others
    return target


def test_a_target_is_another_kind_of_machine(rock: Any) -> None:
    keys = [target.key for target in kernels.target.CATALOGUE.values()]
    assert keys.count(rock.key) == 1
    assert kernels.target.from_json(kernels.target.to_json(rock)) == rock
    workload = Gemm(8, 24, 16)
    config = registry.recommendations(workload, rock)[0]
    function = registry.kernel(config.kernel).build(workload, config, rock, 1, "candidate")
    assert compile_object(function, rock)[18:20] == b"\xb7\x00"  # EM_AARCH64


@pytest.mark.xdist_group("simulated")
def test_a_target_has_a_simulator(rock: Any, tmp_path: Path) -> None:
    there_or_skip(why_no_emulator("rock-sim"))
    (spec,) = fleet_of(["rock-sim"]).boards
    assert (spec.id, spec.why_not()) == ("rock-sim", None)
    with SimulatedBoard("rock-sim", state_dir=tmp_path) as board:
        assert (board.target, board.clock.startswith("simulated:rock-sim:")) == (rock.name, True)
        session = tvm.rpc.connect(board.host, board.port, board.key)
        assert board.clock in session.get_function("tilefleet.stats")()


@needs_avx2
def test_an_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [one_operator.case("LpNormalization", one_operator.floats(2, 3, 5), p=p, axis=1) for p in (1, 2)]
    for row in rows:
        one_operator.check(one_operator.case(row.op, *row.inputs, refused=True), tmp_path)
    recipes.add("compiler/lower/operators", "compiler.lower.operators", tmp_path, monkeypatch)
    for name, function in eval("{" + recipes.blocks()["COMPUTED"] + "}").items():
        monkeypatch.setitem(COMPUTED, name, function)
    for row in rows:
        one_operator.check(row, tmp_path)


def test_a_dashboard_page(tmp_path: Path) -> None:
    surroundings = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    node = shutil.which("node", path=surroundings["PATH"])
    modules = DASHBOARD / "node_modules"
    there_or_skip(
        None if node and (modules / ".bin/tsc").exists() else "node and dashboard/node_modules: make setup"
    )
    recipes.write("dashboard/src", tmp_path)
    folder = tmp_path / "dashboard"
    skip = shutil.ignore_patterns("node_modules", "schema.d.ts")
    shutil.copytree(DASHBOARD, folder, ignore=skip, dirs_exist_ok=True)
    (folder / "node_modules").symlink_to(modules.resolve())
    shell, line = folder / "src/shell.tsx", recipes.blocks()["PAGES"]
    text = shell.read_text()
    assert text.count("const PAGES = [\n") == 1
    shell.write_text(text.replace("const PAGES = [\n", f"const PAGES = [\n  {line}"))
    for command in (["npm", "run", "types"], ["npm", "run", "check"]):
        done = subprocess.run(
            command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_server_knows_every_page_of_the_dashboard() -> None:
    shell = (DASHBOARD / "src/shell.tsx").read_text()
    found = re.findall(r'(?:<Route path=|\{ path: )"([^"]+)"', shell)
    assert sorted(re.sub(r":(\w+)", r"{\1}", path) for path in found) == sorted(PATHS)
