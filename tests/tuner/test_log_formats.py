"""The log's header, schema and other forms: what is written can be read, and the page says what it is."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import RELU, Conv2d, Epilogue, Gemm
from kernels.workload.qconv2d import QConv2d
from tilefleet.cli import app
from tuner.log import t4
from tuner.log.record import Record, read_log, write_log
from tuner.log.relayouts import Relayouts, header, read_relayouts
from tuner.log.rows import rows, to_csv
from tuner.log.schema import RECORD, log_schema
from worker.outcome import ErrorKind

PAGE = Path(__file__).parents[2] / "docs/log.md"
RPI4 = CATALOGUE["rpi4"]
GOOD = Record(
    Conv2d(1, 3, 8, 8, 4, 3, 3, epilogue=Epilogue(bias=True, clamp=RELU)),
    RPI4,
    Config.of("sconv", block="4x4", channels=4),
    2,
    clock="simulated:rpi4-sim:7",
    cost_s=2e-6,
    repeats_s=(2e-6, 3e-6),
    spread=0.1,
    counters={"cycles": 3000},
    toolchain={"apache-tvm": "0.27.0"},
    created="2026-01-01T00:00:00+00:00",
)
BAD = replace(
    GOOD,
    config=Config.of("gemm", block=6),
    cost_s=None,
    repeats_s=(),
    spread=None,
    error=ErrorKind.WRONG_RESULT,
    message="off by 1",
    counters={},
)
OTHER = replace(GOOD, workload=Gemm(4, 8, 16), verified_s=1e-6, remeasured=7)
QUANTIZED = replace(GOOD, workload=QConv2d(1, 8, 8, 16, 16, 1, 1))
TIMES = Relayouts(RPI4, 1, "wall", {"nchw>nhwc": [(100.0, 1e-6)]})


def why_not(value: Any, schema: dict[str, Any], whole: dict[str, Any], at: str = "") -> list[str]:
    """What is wrong with ``value``, by the part of JSON Schema that ours uses."""
    if "$ref" in schema:
        wrong = why_not(value, whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], whole, at)
        return wrong + why_not(value, {k: v for k, v in schema.items() if k != "$ref"}, whole, at)
    for name in ("oneOf", "anyOf"):
        if name in schema:
            fits = sum(not why_not(value, each, whole, at) for each in schema[name])
            if fits == 0 or (name == "oneOf" and fits > 1):
                return [f"{at}: {fits} of {name} fit"]
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    kinds |= {"integer": int, "number": (int, float)}
    if "type" in schema:
        wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(
            isinstance(value, kinds[each])
            and not (each != "boolean" and value in (True, False) and isinstance(value, bool))
            for each in wanted
        ):
            return [f"{at}: no {wanted}"]
    if ("const" in schema and value != schema["const"]) or ("enum" in schema and value not in schema["enum"]):
        return [f"{at}: {value!r}"]
    if isinstance(value, int | float) and value <= schema.get("exclusiveMinimum", value - 1):
        return [f"{at}: too little"]
    if isinstance(value, list):
        return [
            w
            for n, each in enumerate(value)
            for w in why_not(each, schema.get("items", {}), whole, f"{at}.{n}")
        ]
    if not isinstance(value, dict):
        return []
    wrong = [f"{at}: lacks {name}" for name in schema.get("required", []) if name not in value]
    for name, item in value.items():
        known = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
        wrong += [f"{at}.{name}: unknown"] if known is False else why_not(item, known, whole, f"{at}.{name}")
    return wrong


def test_every_line_of_a_log_fits_the_schema_and_what_does_not_is_refused() -> None:
    schema = log_schema()
    lines = [header([TIMES]), *write_log([GOOD, BAD, OTHER, QUANTIZED])]
    for line in lines:
        kind = "header" if line is lines[0] else "record"
        assert why_not(json.loads(line), schema["$defs"][kind], schema) == []
        assert why_not(json.loads(line), schema, schema) == []
    value = json.loads(lines[1])
    for wrong in ({"cost_s": "fast"}, {"cost_s": -1.0}, {"speed": 1}, {"format": 2}, {"error": "tired"}):
        assert why_not({**value, **wrong}, schema["$defs"]["record"], schema), wrong


def test_the_schema_and_the_page_have_every_field() -> None:
    schema = log_schema()
    assert set(RECORD) == set(GOOD.to_json())
    table = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE))
    assert {name: table.get(name) for name in RECORD} == {name: text for name, (text, _) in RECORD.items()}
    objects = [each for each in schema["$defs"].values() if "properties" in each]
    assert len(objects) > 10
    for each in objects:
        assert all(form.get("description") for form in each["properties"].values()), each


def test_the_header_and_old_logs_are_read() -> None:
    new = [header([TIMES]), *write_log([GOOD, BAD])]
    old = [TIMES.line(), *write_log([GOOD, BAD])]
    for lines in (new, old):
        assert list(read_log(lines)) == [GOOD, BAD]
        assert list(read_relayouts(lines)) == [TIMES]
    assert list(read_relayouts([header()])) == []
    said: list[str] = []
    assert list(read_relayouts(['{"format": 1, "relayouts": [1]}'], said.append)) == []
    assert "times of layout changes are a JSON object" in said[0]


def test_rows_have_one_set_of_columns_and_csv_keeps_them() -> None:
    table = rows([GOOD, BAD, OTHER])
    assert len({tuple(row) for row in table}) == 1
    assert [row["knob.block"] for row in table] == ["4x4", "6", "4x4"]
    assert [row["counter.cycles"] for row in table] == [3000, None, 3000]
    assert table[2]["ranking_s"] == 1e-6
    read = list(csv.DictReader(io.StringIO(to_csv([GOOD, BAD, OTHER]))))
    assert [row["error"] for row in read] == ["", "wrong_result", ""]
    assert json.loads(read[0]["repeats_s"]) == [2e-6, 3e-6]
    assert json.loads(read[0]["workload_json"]) == GOOD.to_json()["workload"]


def test_t4_is_what_its_schema_wants_and_comes_back_whole() -> None:
    document = json.loads(t4.dumps([GOOD, BAD]))
    for result in document["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= result.keys()
    assert [each["invalidity"] for each in document["results"]] == ["correct", "correctness"]
    assert [each["correctness"] for each in document["results"]] == [1, 0]
    first = document["results"][0]
    assert first["configuration"] == {"kernel": "sconv", "block": "4x4", "channels": 4}
    assert first["times"]["runtimes"] == pytest.approx([2e-3, 3e-3])
    assert first["measurements"][0] == {"name": "time", "value": pytest.approx(2e-3), "unit": "ms"}
    assert t4.from_t4(document) == [GOOD, BAD]
    assert list(read_log(t4.as_log(t4.dumps([GOOD, BAD]).splitlines(keepends=True)))) == [GOOD, BAD]
    assert list(read_log(t4.as_log([json.dumps(document)]))) == [GOOD, BAD]
    assert list(t4.as_log(iter(["a\n", "b\n"]))) == ["a\n", "b\n"]


def test_results_of_other_tools_are_read_by_their_time() -> None:
    document = t4.to_t4([GOOD])
    (result,) = document["results"]
    del result["tilefleet"]
    result["measurements"] = [{"name": "time", "value": 5.0, "unit": "us"}]
    (record,) = t4.from_t4(document)
    assert (record.cost_s, record.config, record.workload) == (
        pytest.approx(5e-6),
        GOOD.config,
        GOOD.workload,
    )
    result |= {"invalidity": "compile", "measurements": []}
    assert t4.from_t4(document)[0].error is ErrorKind.BUILD_ERROR
    result["invalidity"] = "bored"
    with pytest.raises(ValueError, match="result 1: 'bored'"):
        t4.from_t4(document)
    with pytest.raises(ValueError, match="one workload, target, clock"):
        t4.to_t4([GOOD, OTHER])
    with pytest.raises(ValueError, match="no workload and target"):
        t4.from_t4({"schema_version": "1.0.0", "results": []})


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return result.exit_code, result.output


def test_who_imports_t4_learns_first_that_other_kernels_are_refused() -> None:
    assert "T4 of our kernels" in run("load", "--help")[1]
    (line,) = re.findall(r"^tilefleet load .*T4.*$", (PAGE.parent / "howto.md").read_text(), re.MULTILINE)
    assert "our kernels alone" in line
    introduced, _, said = PAGE.read_text().partition("T4 files of other kernels than ours are refused")
    assert said
    assert introduced.index("\n\nT4 comes in again") < introduced.index("tilefleet load FILE")


def test_export_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    log.write_text("".join([header([TIMES]), *write_log([GOOD, BAD, OTHER])]))
    code, text = run("export", "--log", log)
    assert (code, len(list(csv.DictReader(io.StringIO(text))))) == (0, 3)
    code, text = run("export", "--log", log, "--format", "t4", "-o", out)
    assert (code, GOOD.workload.key in text, OTHER.workload.key in text) == (1, True, True)
    code, _ = run("export", "--log", log, "--format", "t4", "--workload", GOOD.workload.key, "-o", out)
    assert (code, t4.from_t4(json.loads(out.read_text()))) == (0, [GOOD, BAD])
    assert run("export", "--log", out)[0] == 0  # a T4 file is a log, too
    assert json.loads(run("log", "--json-schema")[1])["title"] == "Tilefleet tuning log"

    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as where it is not installed
    code, text = run("export", "--log", log, "--format", "parquet", "-o", out)
    assert (code, "pip install pyarrow" in text) == (1, True)
    written: list[Any] = []
    table = types.SimpleNamespace(from_pylist=lambda given: given)
    parquet = types.SimpleNamespace(write_table=lambda given, path: written.append((given, path)))
    monkeypatch.setitem(sys.modules, "pyarrow", types.SimpleNamespace(Table=table))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)  # type: ignore[arg-type]
    assert run("export", "--log", log, "--format", "parquet", "-o", out)[0] == 0
    assert written == [(rows([GOOD, BAD, OTHER]), out)]
