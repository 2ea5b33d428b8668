"""``tilefleet compare``: the table, who wins, and runtimes that cannot do it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import helper
from tiny_models import model, node, save
from typer.testing import CliRunner

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from kernels import registry
from kernels import target as targets
from kernels.numerics import Numerics
from kernels.workload.base import Conv2d
from tilefleet import comparing, comparing_simulated
from tilefleet.cli import app
from tilefleet.commands import known_records
from tilefleet.commands.compare import as_markdown, verdict
from tilefleet.comparing import Comparison, Row
from tilefleet.errors import ServerUnreachable
from tuner.log.record import Record, write_log
from tuner.runtimes import alone
from tuner.runtimes.guest import GuestError
from tuner.runtimes.operators import refuse_unknown
from worker.fleet.drivers.simulated import why_no_emulator

FAST = Row("onnxruntime", "1", 1e-3, 1.1e-3, 0.03, 60_000_000, 800_000, 1e-7)
OURS = Row("tilefleet, untuned", "0", 2e-3, 2e-3, 0.6, 200_000_000, 1_000_000, 1e-7)
FAILED = Row("litert", "2", why="reads no ONNX")
WRONG = Row("ncnn", "1", 1e-4, 1e-4, 0.1, 1, 1, 0.5, why="it is wrong: y is off by 0.5")


def found(*rows: Row, by: str = "onnxruntime 1") -> Comparison:
    return Comparison(rows, by, "", ("mnn",))


def test_it_says_who_wins_also_when_it_is_not_us() -> None:
    words = verdict(found(FAST, OURS, FAILED, WRONG))
    assert words[0] == "onnxruntime wins: 2.00 times as fast as tilefleet, untuned"
    assert words[-1] == "not installed: mnn"
    assert verdict(found(OURS, FAILED))[0] == "tilefleet, untuned wins: nobody else computes it"
    assert verdict(found(FAILED))[0] == "nobody computes it"


def test_markdown_has_a_row_each() -> None:
    text = as_markdown("m.onnx, 1 thread", found(FAST, FAILED), ["onnxruntime wins"])
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in rows} == {10}
    assert "| onnxruntime | 1 | 1.00 | 1.10 | 1.00 | 30 | 60 | 0.80 | 1e-07 |" in rows
    assert any("reads no ONNX" in line for line in rows)


def test_a_model_is_compared_and_a_runtime_that_dies_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node("Conv", ["x", "w"], "c", pads=[1, 1, 1, 1]), node("Relu", ["c"], "y")]
    path = save(tmp_path, model(nodes, {"x": (1, 3, 9, 9)}, ["y"], {"w": (8, 3, 3, 3)}))
    whole = comparing._process

    def dies(module: str, request: dict, *rest: object) -> dict:
        engines = [request.get("engine"), *(each["engine"] for each in request.get("engines", ()))]
        if "library" in engines:
            raise comparing.Failed("its process died of signal 11")
        return whole(module, request, *rest)

    monkeypatch.setattr(comparing, "installed", lambda: {"onnxruntime": "1", "litert": "2"})
    monkeypatch.setattr(comparing, "_process", dies)
    own = [each for each in comparing._own(False) if each[2] != "default"]
    monkeypatch.setattr(comparing, "_own", lambda _: own)
    words = ["compare", path, "--rounds", "3", "--json", tmp_path / "c.json", "--markdown", tmp_path / "c.md"]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.output
    value = json.loads((tmp_path / "c.json").read_text())
    rows = {row["name"]: row for row in value["rows"]}
    assert value["winner"] in done.stdout
    assert rows["litert"]["why"] == "reads no ONNX"
    assert rows["tilefleet, C library"]["why"] == "its process died of signal 11"
    for name in ("onnxruntime", "tilefleet, untuned"):
        assert rows[name]["why"] == ""
        assert 0 < rows[name]["seconds"] <= rows[name]["p90_s"]
        assert rows[name]["error"] < 1e-5
    assert "| onnxruntime |" in (tmp_path / "c.md").read_text()


def test_what_nobody_computes_is_an_error_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path, model([node("Relu", ["x"], "y")], {"x": (1, 3)}, ["y"]))
    ours = replace(OURS, seconds=None, why="operators that are not standard ONNX: com.acme.Frobnicate")
    monkeypatch.setattr(comparing, "compare", lambda *_: found(FAILED, ours))
    done = CliRunner().invoke(app, ["compare", str(path)])
    assert done.exit_code == 1
    assert "nobody computes it: operators that are not standard ONNX: com.acme.Frobnicate" in done.stderr


@pytest.mark.parametrize("domain", ["", "com.acme", "com.microsoft"])
def test_operators_that_nobody_computes_are_refused_by_name_before_anything_is_tried(
    domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node("Relu", ["x"], "a"), node("Frobnicate", ["a"], "odd", domain=domain)]
    path = tmp_path / "odd.onnx"
    odd = model(nodes, {"x": (1, 3)}, ["odd"])
    if domain:
        odd.opset_import.add(domain=domain, version=1)
    path.write_bytes(odd.SerializeToString())
    monkeypatch.setattr(comparing, "engines_of", lambda *_: pytest.fail("a runtime was tried"))
    done = CliRunner().invoke(app, ["compare", str(path), "--json", str(tmp_path / "c.json")])
    assert done.exit_code == 1
    name = f"{domain}.Frobnicate".lstrip(".")
    assert f"no runtime computes these operators: {name} (node 'odd')" in done.stderr
    assert not (tmp_path / "c.json").exists()


def test_a_functions_name_is_an_operators_and_what_is_in_it_is_asked_too() -> None:
    odd = model([node("Twice", ["x"], "y", domain="mine")], {"x": (1, 3)}, ["y"])
    body = [node("Add", ["a", "a"], "b")]
    opsets = [helper.make_opsetid("", 17)]
    odd.functions.append(helper.make_function("mine", "Twice", ["a"], ["b"], body, opsets))
    refuse_unknown(odd)
    odd.functions[0].node[0].op_type = "Adds"
    with pytest.raises(ModelError, match="operators: Adds"):
        refuse_unknown(odd)


class HostGuest:
    """A guest whose runtimes run here; it knows no library for another machine."""

    tools = Path("/nonexistent")

    def versions(self) -> dict[str, str]:
        return {"onnxruntime": "1.32.0", "litert": "2.3.0"}

    def alone(self, request: dict) -> dict[str, float]:
        assert request["threads"] == 4
        if request["engine"] == "library":
            assert Path(request["path"]).read_bytes()[18:20] == bytes([183, 0])  # AArch64
            raise GuestError("it failed:\nillegal instruction")
        alone.main(request)
        return {"start": 0.5, "call": 0.002, "resident_bytes": 5_000_000}


def test_on_a_simulated_board_all_run_by_its_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing_simulated, "guest_for", lambda *_: HostGuest())
    path = save(tmp_path, model([node("Relu", ["x"], "y")], {"x": (1, 3, 9, 9)}, ["y"]))
    words = ["compare", path, "--board", "rpi4-sim", "--threads", "4", "--json", tmp_path / "c.json"]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.output
    assert "4 threads, rpi4-sim (simulated)" in done.stdout
    rows = {row["name"]: row for row in json.loads((tmp_path / "c.json").read_text())["rows"]}
    assert (rows["onnxruntime"]["seconds"], rows["onnxruntime"]["start_s"]) == (0.002, 0.5)
    assert rows["onnxruntime"]["error"] == 0
    assert rows["onnxruntime"]["resident_bytes"] == 5_000_000
    assert rows["litert"]["why"] == "reads no ONNX"
    assert rows["tilefleet, untuned"]["why"] == "illegal instruction"
    assert rows["TVM default"]["why"] == "illegal instruction"
    assert "not installed: mnn, ncnn, openvino" in done.stdout


class Knowing:
    """A client of a server that knows ``lines`` of every target."""

    url = "http://known"
    lines: tuple[str, ...] = ()

    def __init__(self, url: str | None) -> None:
        if url == "http://gone":
            raise ServerUnreachable("nothing answers")

    def __enter__(self) -> Knowing:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def target_log(self, target: str, **_: object) -> Iterator[str]:
        assert target == "rpi4"
        yield from self.lines


def test_what_a_server_knows_of_the_layers_is_built_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilefleet.client.Client", Knowing)
    nodes = [node("Conv", ["x", "w"], "y", pads=[1, 1, 1, 1])]
    path = save(tmp_path, model(nodes, {"x": (1, 8, 9, 9)}, ["y"], {"w": (8, 8, 3, 3)}))
    target, layer = targets.CATALOGUE["rpi4"], extract(path).operators[0].workload
    kernel = registry.kernel("fconv")
    config = next(iter(kernel.space(layer, target)))
    records = [
        Record(each, target, config, kernel.version, cost_s=1e-6)
        for each in (layer, Conv2d(1, 16, 16, 16, 16, 3, 3))
    ]
    wanted = comparing.Wanted(path, target, 1, Numerics.EXACT_INTEGERS, None, (), (), 5)

    assert not known_records.known_by_server(None, wanted).records
    Knowing.lines = tuple(write_log(records[1:]))
    assert not known_records.known_by_server(None, wanted).records
    Knowing.lines = tuple(write_log(records))
    known = known_records.known_by_server(None, wanted)
    assert records[0] in known.records
    assert known.where == "what http://known knows of 1 of its layers"
    with pytest.raises(ServerUnreachable):
        known_records.known_by_server("http://gone", wanted)
    other = replace(wanted, target=replace(target, cpu="cortex-a53"))
    assert not known_records.known_by_server(None, other).records


def test_boards_without_runtimes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEFLEET_HOME", str(tmp_path))
    path = save(tmp_path, model([node("Relu", ["x"], "y")], {"x": (1, 3, 9, 9)}, ["y"]))
    for more, why in {
        (
            "--board",
            "power10-sim",
        ): "there are wheels of other runtimes for rpi4-sim, rpi5-sim, graviton3-sim only",
        ("--board", "rpi4-sim", "--threads", "5"): "rpi4-sim has 4 cores: --threads 5 is too many",
        ("--board", "rpi4-sim"): f"--fetch downloads it into {tmp_path}",
    }.items():
        if more == ("--board", "rpi4-sim") and why_no_emulator("rpi4-sim"):
            continue
        done = CliRunner().invoke(app, ["compare", str(path), *more])
        assert done.exit_code == 1
        assert why in done.stderr


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "broken.onnx")])
    assert done.exit_code == 1
    assert "is not an ONNX or TFLite model" in done.stderr


def test_runtimes_that_do_not_bear_each_other_run_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def process(_: str, request: dict, *__: object) -> dict:
        names = [each["name"] for each in request["engines"]]
        calls.append(names)
        if len(names) > 1:
            raise comparing.Failed("signal 6")
        return {names[0]: [1.0, 3.0, 2.0]}

    monkeypatch.setattr(comparing, "_process", process)
    engines = [comparing.Engine(name, "1", name, Path(__file__), ["x"], ["y"]) for name in ("a", "b")]
    wanted = comparing.Wanted(Path("m"), None, 1, None, None, (), (), 5)  # type: ignore[arg-type]
    rows = comparing._in_turns(engines, wanted, {"feeds": "", "inputs": []}, Path("/tmp"))
    assert calls == [["a", "b"], ["a"], ["b"]]
    assert [(row.seconds, row.p90_s, row.alone) for row in rows] == [(2.0, 3.0, True)] * 2
