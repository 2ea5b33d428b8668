"""``tilefleet ci``: a model on a simulated board, with the analysis's config and with one that is slower."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from compiler.load import load_partition
from kernels import registry
from kernels.layout import Layouts
from kernels.space import Config
from kernels.target import CATALOGUE
from tilefleet.cli import app
from tuner.log.record import Record, write_log
from tuner.performance.baseline import Baseline
from worker.fleet.drivers.simulated import SimulatedBoard

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def home(simulated_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder that has the agents already."""
    monkeypatch.setenv("TILEFLEET_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "boards").symlink_to(simulated_dir)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("GlobalAveragePool", ["b"], ["y"], name="pool"),
    ]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.standard_normal((16, 8, 3, 3)).astype(np.float32), "w")],
    )
    path = tmp_path / "net.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path


def ci(model: Path, *more: object) -> Result:
    baseline = model.with_name("baseline.json")
    words = ["ci", model, "--target", "rpi4", "--baseline", baseline]
    words += ["--assembly", model.with_name("assembly"), *more]
    return CliRunner().invoke(app, [*map(str, words)])


def slow_log(model: Path) -> Path:
    """A log with the configs that are predicted to be the slowest, one of each pair of layouts: a build would
    take a prediction for any that it lacks."""
    target, (product,) = CATALOGUE["rpi4"], load_partition(model).products
    workload, slowest = product.workload, dict[Layouts, tuple[float, Config]]()
    for config in registry.search_space(workload, target, any_layout=True):
        seconds = registry.kernel(config.kernel).predict(workload, config, target)
        if config.kernel == "fconv" and seconds > slowest.get(config.layouts, (0.0,))[0]:
            slowest[config.layouts] = seconds, config
    version = registry.kernel("fconv").version
    records = [
        Record(workload, target, config, version, cost_s=1.0, verified_s=1.0)
        for _, config in slowest.values()
    ]
    path = model.with_name("log.jsonl")
    path.write_text("".join(f"{line}\n" for line in write_log(records)))
    return path


def test_a_slower_config_fails_and_is_named_with_both_assemblies(model: Path) -> None:
    missing = ci(model)
    assert (missing.exit_code, "make it by --update" in missing.stderr) == (1, True)
    kept = ci(model, "--update")
    assert kept.exit_code == 0, kept.output
    baseline = model.with_name("baseline.json")
    first = baseline.read_bytes()

    log = slow_log(model)
    slower = ci(model, "--log", log)
    assert slower.exit_code == 3, slower.output
    assert "net: slower by more than 0.5 %" in slower.stderr
    assert "  slower: conv 8x12x12 -> 16, 3x3 +relu (first, relu): " in slower.stdout
    assert "config before: " in slower.stdout
    assert "config now:    fconv(" in slower.stdout
    kinds = {path.name.partition(".")[2] for path in model.with_name("assembly").glob("net/*conv-8x12x12*")}
    assert kinds == {"after.s", "before.s"}
    assert baseline.read_bytes() == first

    found = json.loads(ci(model, "--log", log, "--allow", "100000", "--json").stdout)
    (change, *_) = found["models"][0]["changes"]
    assert change["kind"] == "a little slower"
    assert change["after"]["seconds"] > change["before"]["seconds"]


def test_what_cannot_be_compared_is_refused(model: Path) -> None:
    assert (
        "has no simulated board; these have: graviton3, hexagon-v66"
        in ci(model, "--target", "x86-avx2").stderr
    )
    baseline = model.with_name("baseline.json")
    clock = SimulatedBoard("rpi4-sim", state_dir=model.parent).clock
    Baseline("rpi4-sim", "simulated:rpi4-sim:other", {}).write(baseline)
    assert "times of different clocks are not compared" in ci(model).stderr
    Baseline("rpi4-sim", clock, {}).write(baseline)
    refused = ci(model)
    assert (refused.exit_code, "does not have net: add what is new by --update" in refused.stderr) == (
        1,
        True,
    )
