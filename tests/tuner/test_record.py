"""The tuning log: what is written can be read, and damage is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from tuner.log.record import LogError, Record, read_log, write_log
from worker.outcome import ErrorKind

GOOD = Record(
    workload=Conv2d(1, 3, 8, 8, 4, 3, 3),
    target=CATALOGUE["x86-avx2"],
    config=Config.of("sconv", nf=4, order="IS"),
    kernel_version=1,
    cost_s=2e-6,
    repeats_s=(2e-6, 3e-6),
    spread=0.1,
    toolchain={"apache-tvm": "0.27.0"},
    created="2026-01-01T00:00:00+00:00",
)
COUNTED = replace(GOOD, counters={"cycles": 3000}, temperature_c=41.5, frequency_mhz=1500.0)
BAD = replace(GOOD, cost_s=None, error=ErrorKind.CRASH, message="signal 11", repeats_s=())


def test_round_trip() -> None:
    lines = list(write_log([GOOD, COUNTED, BAD]))
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    assert list(read_log(lines)) == [GOOD, COUNTED, BAD]


def test_what_older_logs_lack_is_filled_in() -> None:
    value = COUNTED.to_json()
    for name in ("remeasured", "counters", "temperature_c", "frequency_mhz"):
        del value[name]
    assert Record.from_json(value) == GOOD


def test_ranking_prefers_the_verified_cost() -> None:
    assert GOOD.ranking_s == 2e-6
    assert replace(GOOD, verified_s=3e-6).ranking_s == 3e-6
    assert GOOD.gflops == pytest.approx(GOOD.workload.flops / 2e-6 / 1e9)
    assert BAD.gflops is None


def test_identity_ignores_the_outcome_but_not_the_circumstances() -> None:
    assert GOOD.identity == BAD.identity
    for other in (
        replace(GOOD, clock="simulated"),
        replace(GOOD, threads=2),
        replace(GOOD, kernel_version=2),
    ):
        assert other.identity != GOOD.identity


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("{", "line 17 of the log is damaged"),
        ("[]", "a record is a JSON object, got list"),
        ('{"format": 9}', "format 9 is not 1"),
        ({"workload": {"kind": "pool"}}, "kind must be one of"),
        ({"error": "meltdown"}, "record error: .*got 'meltdown'"),
        ({"error": "crash"}, "either cost_s or error"),
        ({"cost_s": -1.0}, "positive number of seconds"),
        ({"verified_s": -1.0}, "verified_s must be a positive number of seconds"),
        ({"error": "crash", "cost_s": None, "verified_s": 1e-6}, "error has no verified_s"),
        ({"cost_s": "fast"}, "record cost_s: Input should be a valid number"),
        ({"mood": "good"}, "mood"),
    ],
)
def test_damage_names_its_line(damage: Any, message: str) -> None:
    line = damage if isinstance(damage, str) else json.dumps(GOOD.to_json() | damage)
    lines = [*list(write_log([GOOD])) * 16, line]
    with pytest.raises(LogError, match=message) as caught:
        list(read_log(lines))
    assert "line 17" in str(caught.value)


def test_a_missing_field_is_named() -> None:
    value = GOOD.to_json()
    del value["config"]
    with pytest.raises(LogError, match="lacks 'config'"):
        list(read_log([json.dumps(value)]))
