import dataclasses
import json

import numpy as np
import pytest
from tiny_models import model, node, save
from typer.testing import CliRunner

from compiler.intake.extract import extract
from compiler.load import load_partition
from kernels import registry
from kernels.layout import PLAIN
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.qconv2d import QConv2d
from tilefleet.cli import app
from tuner.backend.apply import plan_of
from tuner.backend.shares import parts_of, tuned_share
from tuner.log.picks import OtherTargetError, as_chosen, best_by_layouts, check
from tuner.log.record import Record, write_log
from worker.outcome import ErrorKind

TARGET, OTHER = CATALOGUE["x86-avx2"], CATALOGUE["x86-avx512"]


@pytest.fixture
def path(tmp_path):
    nodes = [node("Conv", ["x", "w"], "a"), node("Conv", ["a", "w"], "b"), node("Relu", ["b"], "y")]
    return save(tmp_path, model(nodes, {"x": (1, 4, 12, 12)}, ["y"], {"w": (4, 4, 3, 3)}))


@pytest.fixture
def workload(path):
    return extract(path).operators[0].workload


@pytest.fixture
def record(workload):
    config = registry.recommendations(workload, TARGET)[0]
    return Record(workload, TARGET, config, registry.kernel(config.kernel).version, cost_s=2e-5)


def test_each_workload_is_found_or_missing(path, record):
    found, missing = check(path, [record], TARGET)
    assert (found.record, found.to_json()["status"], found.to_json()["expected_s"]) == (record, "found", 2e-5)
    assert (missing.record, missing.to_json()["status"]) == (None, "missing")


@pytest.mark.parametrize(
    "changes",
    [
        {"cost_s": 3e-5},
        {"cost_s": 1e-5, "verified_s": 3e-5},
        {"cost_s": 1e-5, "threads": 2},
        {"cost_s": 1e-5, "clock": "simulated:x"},
        {"cost_s": 1e-5, "kernel_version": 999},
        {"cost_s": 1e-5, "target": OTHER},
        {"cost_s": None, "error": ErrorKind.CRASH},
    ],
)
def test_slower_and_unusable_records_are_passed_over(record, workload, changes):
    worse = dataclasses.replace(record, **changes)
    for records in ([record, worse], [worse, record]):
        assert best_by_layouts(records, TARGET) == {workload.key: {PLAIN: record}}


def test_an_exact_build_passes_over_relaxed_records(tmp_path):
    made = model([node("Conv", ["x", "w"], "y")], {"x": (1, 32, 40, 40)}, ["y"], {"w": (32, 32, 3, 3)})
    path = save(tmp_path, made)
    workload = extract(path).operators[0].workload
    relaxed, exact = (
        Record(workload, TARGET, config, registry.kernel(config.kernel).version, cost_s=cost, max_error=error)
        for numerics, cost, error in ((Numerics.RELAXED, 1e-5, 4e-6), (Numerics.EXACT, 2e-5, 3e-7))
        for config in registry.recommendations(workload, TARGET, numerics)[:1]
    )
    records = [relaxed, exact]
    assert check(path, records, TARGET)[0].record == relaxed
    assert best_by_layouts(records, TARGET, numerics=Numerics.EXACT) == {workload.key: {PLAIN: exact}}
    shown = check(path, records, TARGET, numerics=Numerics.EXACT)[0].to_json()
    assert (shown["numerics"], shown["max_error"], shown["expected_s"]) == ("exact", 3e-7, 2e-5)
    (match,) = check(path, [relaxed], TARGET, numerics=Numerics.EXACT)
    assert match.record is None
    assert match.reason.startswith("it is not exact: Winograd")


def test_integers_stay_exact_unless_relaxed_ones_are_asked_for():
    conv, target = QConv2d(1, 8, 8, 16, 16, 1, 1), CATALOGUE["rpi4"]
    (exact,) = registry.recommendations(conv, target)
    relaxed = Config.of(exact.kernel, **{**dict(exact.knobs), "requant": "arm"})
    version = registry.kernel(exact.kernel).version
    costs = {exact: 2e-5, relaxed: 1e-5}
    records = [Record(conv, target, config, version, cost_s=cost) for config, cost in costs.items()]
    assert best_by_layouts(records, target)[conv.key][PLAIN].config == exact
    assert best_by_layouts(records, target, numerics=Numerics.RELAXED)[conv.key][PLAIN].config == relaxed
    assert best_by_layouts(records[1:], target) == {}


def test_a_log_of_another_target_is_named(record):
    with pytest.raises(OtherTargetError, match="x86-avx512"):
        best_by_layouts([dataclasses.replace(record, target=OTHER)], TARGET)


def test_an_empty_log_has_nothing_but_is_no_error():
    assert best_by_layouts([], TARGET) == {}


def test_says_why_the_records_of_a_workload_will_not_do(path, record):
    """What ``check`` calls exact, a build must be able to use."""
    knob = next(name for name, _ in record.config.knobs)
    knobs = {**dict(record.config.knobs), knob: 99999}
    impossible = dataclasses.replace(record, config=Config.of(record.config.kernel, **knobs), cost_s=1e-9)
    outdated = dataclasses.replace(record, kernel_version=999)
    assert check(path, [impossible, record], TARGET)[0].record == record
    for unusable, reason in ((impossible, f"{knob}=99999 is not one of"), (outdated, "the record's is 999")):
        match, unknown = check(path, [unusable], TARGET)
        assert match.record is None
        assert reason in match.to_json()["reason"]
        assert unknown.to_json()["reason"] == ""


def test_all_operators_have_a_share_of_the_time(tmp_path):
    nodes = [
        node("MatMul", ["x", "w"], "product"),
        node("Softmax", ["product"], "weights"),
        node("MatMul", ["weights", "x"], "mixed"),
        node("TopK", ["mixed", "two"], ["y", "z"]),
    ]
    made = model(nodes, {"x": (64, 64)}, ["y"], {"w": (64, 64), "two": np.array([2])})
    partition = load_partition(save(tmp_path, made))
    parts = parts_of(partition, plan_of(partition, {}, TARGET), TARGET, 1)
    assert {(part.name, part.source, part.count) for part in parts} == {
        ("gemm 64x64 by 64x64", "analysis", 1),
        ("matmul 64x64 by 64x64", "analysis", 1),
        ("Softmax", "untuned", 1),
        ("TopK", "untuned", 1),
    }
    assert [part.seconds for part in parts] == sorted((part.seconds for part in parts), reverse=True)
    assert 0.5 < tuned_share(parts) < 1


def test_check_names_the_configs_that_a_build_uses(tmp_path):
    """Fast between NHWC and slow between NCHW: a build chooses the first, with conversions at its ends."""
    nodes = [node("Conv", [f"t{at}", "w"], f"t{at + 1}", pads=[1, 1, 1, 1]) for at in range(4)]
    path = save(tmp_path, model(nodes, {"t0": (1, 16, 24, 24)}, ["t4"], {"w": (16, 16, 3, 3)}))
    (operator,) = extract(path).operators
    made = []
    kernel = registry.kernel("fconv")
    for layouts in kernel.layouts(operator.workload, TARGET):
        config = kernel.recommend(operator.workload, TARGET, layouts)
        cost = 1e-4 if str(layouts) == "nhwc" else 1e-2
        made.append(Record(operator.workload, TARGET, config, kernel.version, cost_s=cost))
    partition = load_partition(path)
    plan = plan_of(partition, {}, TARGET, records=made)
    used = [option.record for option in plan.options]
    assert {str(each.config.layouts) for each in used} == {"nhwc"}
    (before,) = check(path, made, TARGET)
    layers = zip(partition.products, plan.options, strict=True)
    (match,) = as_chosen([before], [(layer.workload, option.record) for layer, option in layers])
    assert str(before.record.config.layouts) == "nchw"
    assert match.record in used
    assert match.to_json()["expected_s"] == 1e-4
    log = tmp_path / "log.jsonl"
    log.write_text("".join(write_log(made)))
    words = ["check", str(path), "--log", str(log), "--target", TARGET.name, "--json"]
    (said,) = [each for each in json.loads(CliRunner().invoke(app, words).stdout) if each.get("key")]
    assert said["config"] == match.record.config.to_json()


def test_check_says_where_a_build_prefers_the_analysis(path, tmp_path):
    """A slow trial of another config a layer: the log forbids nothing, and check says what is built."""
    made = []
    for operator in extract(path).operators:
        kernel = registry.kernel("fconv")
        own = kernel.recommend(operator.workload, TARGET)
        other = next(config for config in kernel.space(operator.workload, TARGET) if config != own)
        made.append(Record(operator.workload, TARGET, other, kernel.version, cost_s=1.0))
    log = tmp_path / "log.jsonl"
    log.write_text("".join(write_log(made)))
    words = ["check", str(path), "--log", str(log), "--target", TARGET.name]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output  # nothing is missing
    listed = {each["key"]: each for each in json.loads(done.stdout) if each.get("key")}
    partition = load_partition(path)
    plan = plan_of(partition, {}, TARGET, records=made)
    assert "analysis" in {option.source for option in plan.options}
    for layer, option in zip(partition.products, plan.options, strict=True):
        said = listed[layer.workload.key]
        assert said["status"] == ("analysis" if option.record is None else "found")
        assert (said["config"], said["expected_s"]) == (option.config.to_json(), option.seconds)
        assert said["numerics"] == registry.numerics_of(layer.workload, option.config).value
    assert "analysis" in CliRunner().invoke(app, words, env={"COLUMNS": "200"}).stdout
