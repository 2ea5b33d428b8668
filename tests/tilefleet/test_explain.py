"""``tilefleet explain``: every family and instruction set; configs from a log, from the server, and given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kernels import registry
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload import base as workloads
from kernels.workload.base import RELU, Conv2d, Epilogue, Gemm, Workload
from tilefleet import Client
from tilefleet.cli import app
from tuner.log.record import Record, write_log
from worker.children.nursery import Nursery

RESIDUAL = Conv2d(1, 32, 28, 28, 48, 3, 3, pad=(1, 1, 1, 1), epilogue=Epilogue(True, True, RELU))
DEPTHWISE = Conv2d(1, 16, 28, 28, 16, 3, 3, stride=(2, 2), pad=(1, 1, 1, 1), groups=16)
GEMM = Gemm(64, 96, 128, epilogue=Epilogue(bias=True))


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One for all commands: what they take is most of all to import TVM."""
    with Nursery(("tvm", "tuner.explain.explain")) as shared:
        yield shared


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, nursery: Nursery) -> None:
    """At the usual port there may be somebody's service."""
    monkeypatch.setattr("tilefleet.home.DEFAULT_PORT", 1)
    monkeypatch.setattr("worker.children.nursery.Nursery", lambda _: nullcontext(nursery))


def run(*arguments: object, home: Path) -> tuple[int, str, str]:
    environment = {"TILEFLEET_HOME": str(home), "TILEFLEET_URL": None, "COLUMNS": "100"}
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)], env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def explained(*arguments: object, home: Path) -> dict[str, Any]:
    code, out, err = run(*arguments, "--json", home=home)
    assert code == 0, err
    return dict(json.loads(out))


def text(workload: Workload) -> str:
    return json.dumps(workloads.to_json(workload))


@pytest.mark.parametrize(
    ("workload", "kernel", "target", "width"),
    [
        (RESIDUAL, "sconv", "x86-avx2", 256),
        (RESIDUAL, "sconv_mma", "power10", 512),
        (RESIDUAL, "winograd", "rpi4", 128),
        (RESIDUAL, "fconv", "x86-avx512", 512),
        (DEPTHWISE, "depthwise", "hexagon-v68", 32),
        (DEPTHWISE, "depthwise_rows", "rpi3", 128),
        (GEMM, "gemm", "power10", 128),
        (GEMM, "gemm", "graviton3", 128),
        (RESIDUAL, "fconv", "riscv-k1", 256),
    ],
)
def test_families_and_instruction_sets(
    workload: Workload, kernel: str, target: str, width: int, tmp_path: Path
) -> None:
    config = registry.kernel(kernel).recommend(workload, CATALOGUE[target])
    given = ("--config", json.dumps(config.to_json()), "--target", target)
    found = explained(text(workload), *given, home=tmp_path)
    assert (found["config"], found["measured_s"]) == (config.to_json(), None)
    assert found["predicted_s"] > 0
    [hot] = [line for line in found["nest"] if line["hot"]]
    assert "multiply-adds" in hot["text"]
    assert 0.25 < hot["share"] <= 1
    loop = found["hot_loop"]
    assert loop["vector_bits"] == width
    assert 0 < loop["multiply_adds"] < loop["instructions"] <= len(loop["lines"])
    totals = [each["total"] for each in found["working_sets"]]
    assert totals == sorted(totals)
    assert totals[0] > 0
    levels = [each["level"] for each in found["residents"]]
    assert levels == (["L1", "L2", "L3"] if kernel.startswith("sconv") else [])

    code, shown, _ = run(text(workload), *given, home=tmp_path)
    assert code == 0
    for expected in (str(workload), "Loop nest", "In the caches", "Hot loop", "<- hot", "predicted"):
        assert expected in shown


def record(config: Config, seconds: float, **fields: Any) -> Record:
    target = CATALOGUE["x86-avx2"]
    version = registry.kernel(config.kernel).version
    given = {"workload": GEMM, "kernel_version": version, "cost_s": seconds, **fields}
    return Record(target=target, config=config, **given)


def test_the_best_of_a_log(tmp_path: Path) -> None:
    space = registry.kernel("gemm").space(GEMM, CATALOGUE["x86-avx2"])
    best, slow, other = list(space)[:3]
    shared = Config.of("gemm", **{**dict(other.knobs), "split": "rows"})
    padded = Conv2d(1, 8, 8, 8, 8, 3, 3, pad=(1, 1, 1, 1))
    plain = Conv2d(1, 8, 8, 8, 8, 3, 3)
    records = [
        record(slow, 2e-4),
        record(best, 1e-4, board="one"),
        record(shared, 1e-5, threads=2),
        record(other, 1e-6, kernel_version=0),
        record(other, 1e-7, clock="simulated:x"),
        *(record(other, 1e-4, workload=conv) for conv in (padded, plain)),
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(write_log(records)))
    arguments = ("--log", log, "--target", "x86-avx2")
    simulated = tmp_path / "simulated.jsonl"
    clocks = (("simulated:old", 1e-7, "2026-01-01"), ("simulated:new", 2e-5, "2026-02-01"))
    simulated.write_text("".join(write_log(record(other, s, clock=c, created=at) for c, s, at in clocks)))
    found = explained(GEMM.key, "--log", simulated, "--target", "x86-avx2", home=tmp_path)
    assert (found["clock"], found["measured_s"]) == ("simulated:new", 2e-5)
    for wanted in (GEMM.key, str(GEMM), text(GEMM)):
        found = explained(wanted, *arguments, home=tmp_path)
        assert (found["config"], found["measured_s"]) == (best.to_json(), 1e-4)
    found = explained(GEMM.key, *arguments, "--threads", 2, home=tmp_path)
    assert (found["config"], found["measured_s"]) == (shared.to_json(), 1e-5)
    assert any(line["text"].startswith("parallel for") for line in found["nest"])
    given = ("--config", json.dumps(slow.to_json()))
    assert explained(GEMM.key, *arguments, *given, home=tmp_path)["measured_s"] == 2e-4
    _, shown, _ = run(GEMM.key, *arguments, home=tmp_path)
    assert "0.100 ms, 15.7 GFLOP/s, on one" in shown

    def fails(*wanted: object) -> str:
        code, _, err = run(*wanted, home=tmp_path)
        assert code == 1
        assert len(err.strip().splitlines()) == 1
        return err

    assert "is the text of 2 workloads; give a key" in fails(str(plain), *arguments)
    assert "knows no workload 'gemm 1x1'" in fails("gemm 1x1", *arguments)
    assert "has no record of this workload" in fails(
        GEMM.key, "--log", log, "--target", "rpi4", "--config", "best"
    )
    log.write_text("{}\n")
    assert "line 1 of the log is damaged" in fails(GEMM.key, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "a workload given as JSON needs none"),
        (['{"kind": "gemm", "m": 1}'], "WORKLOAD: gemm"),
        (["{"], "WORKLOAD: Expecting"),
        ([text(GEMM), "--target", "abacus"], "unknown target 'abacus'"),
        ([text(GEMM), "--target", "rpi4", "--targets", "none.toml"], "none.toml: No such file"),
        ([text(GEMM), "--config", "fast"], "--config is JSON, `best` or `analysis`"),
        ([text(GEMM), "--config", "[1]"], "expected a JSON object"),
        ([text(GEMM), "--config", '{"kernel": "winograd"}'], "kernel winograd does not apply"),
        ([text(GEMM), "--config", '{"kernel": "gemm", "rows": 9}'], "gemm has the knobs"),
    ],
)
def test_bad_input(arguments: list[str], message: str, tmp_path: Path) -> None:
    code, out, err = run(*arguments, home=tmp_path)
    assert (code, out) == (1, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.xdist_group("service")
def test_a_workload_that_the_server_knows(client: Client, service: Path) -> None:
    job = client.submit(target="host", workload=workloads.to_json(GEMM), trials=3)
    deadline = time.monotonic() + 200
    while not client.job(job.id).ended:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    best = client.best(GEMM.key, "host")
    environment = {**os.environ, "TILEFLEET_HOME": str(service)}
    environment.pop("TILEFLEET_URL", None)
    for wanted in (GEMM.key, str(GEMM)):
        command = [sys.executable, "-m", "tilefleet", "explain", wanted, "--json"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["config"] == best.config
        assert found["measured_s"] == (best.verified_s or best.cost_s)
        assert found["peak_gflops"] == client.job(job.id).peak_gflops
