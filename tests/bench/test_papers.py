"""bench.papers: the quick sample, rows that cannot be made, and the page; bench.knob, which makes figures."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench import knob
from bench.papers import __main__ as papers
from bench.papers import page, sconv
from bench.papers.claim import Claim
from bench.papers.reports import Bench, Missing, Reports

ROW = {"paper", "claim", "paper_figure", "our_figure", "unit", "target", "command"}


def rows_of(monkeypatch: pytest.MonkeyPatch, path: Path, *options: str) -> list[dict]:
    monkeypatch.setattr(sys, "argv", ["papers", *options, "--json", str(path)])
    papers.main()
    return json.loads(path.read_text())["rows"]


@pytest.mark.xdist_group("simulated")
@pytest.mark.timeout(900)
def test_the_quick_sample_has_every_claim_and_figures_of_its_own(monkeypatch, tmp_path, capsys):
    before = papers.DOCS.read_bytes()
    rows = {
        (row["paper"], row["claim"], row["target"]): row
        for row in rows_of(monkeypatch, tmp_path / "p.json", "--quick")
    }
    assert {paper for paper, _, _ in rows} == set(papers.PAPERS)
    assert all(row.keys() >= ROW and (row["our_figure"] is not None or row["note"]) for row in rows.values())
    assert not any(row["note"].startswith("failed") for row in rows.values())
    found = {claim: row["our_figure"] for (paper, claim, _), row in rows.items() if paper == "002"}
    assert found["sqrdmulh and srshl: gain on a whole network's layers"] > 0  # measured on one layer
    assert found["difference of rounding twice"] <= 1
    assert rows["001", "micro-kernels of M x N, both up to 8", "rpi4"]["our_figure"] == 64
    picks = [row["our_figure"] for (_, claim, _), row in rows.items() if "analysis picks" in claim]
    assert picks == ["393 of 393"] * 2
    assert papers.DOCS.read_bytes() == before  # a sample is no page
    assert capsys.readouterr().out.count("\n") == len(rows) + 1


def test_a_bench_that_fails_is_a_line_and_the_others_are_made(tmp_path):
    reports = Reports(tmp_path)
    bench = Bench("broken", "bench.knob --target rpi4-sim --suite nowhere --knob requant", "1")
    claims = [
        Claim("003", "a", "1", "%", "x", "none", "c", lambda reports: reports.of(bench)["rows"]),
        Claim("003", "b", "1", "%", "x", "none", "c", lambda _: 1 / 0),
        Claim("003", "c", "1", "%", "x", "none", "c", lambda _: 2.0),
    ]
    rows = [claim.row(reports) for claim in claims]
    assert [row["our_figure"] for row in rows] == [None, None, 2.0]
    assert "--suite nowhere is none of mobilenet_v2" in rows[0]["note"]
    assert rows[1]["note"].startswith("failed: ZeroDivisionError")
    text = page.markdown(rows)
    assert "| a | 1 | - |" in text
    assert "1 of 3 claims" in text


def test_without_running_what_is_there_is_taken(tmp_path):
    reports = Reports(tmp_path, run=False)
    with pytest.raises(Missing, match="not measured yet"):
        reports.of(sconv.POWER10)
    call = {"cycles": 300, "loads": 10, "l1_misses": 4, "l2_misses": 2}
    mine = {**call, "cycles": 200, "loads": 8, "l1_misses": 1}
    row = {"layer": "vgg16/n0", "count": 2, "base": {"call": call}, "tuned": mine, "flops": 6400, "peak": 64}
    tmp_path.joinpath("conv-power10-sconv.json").write_text(json.dumps({"rows": [{**row, "class": "3x3"}]}))
    found = {
        claim.claim: claim.row(Reports(tmp_path, run=False))
        for claim in sconv.CLAIMS
        if claim.target == "power10-sim"
    }
    assert found["SConv alone: Base / ours, geometric mean of the occurrences"]["our_figure"] == 1.5
    assert found["misses of L1 over loads, Base (figure 11, x86)"]["our_figure"] == 40
    assert found["the largest share of the peak"]["our_figure"] == 50
    assert found["pointwise layers that SConv wins (figure 9)"]["note"] == "no pointwise layer in the sample"


def test_every_model_of_table_2_has_its_layers():
    names = sconv._names()
    assert set(names) == set(sconv.MODELS)
    assert sum(sum(layers.values()) for layers in names.values()) == 393


def test_a_value_alone_against_a_value_for_each_layer(capsys):
    rows = [
        {"layer": "a", "count": 1, "values": {"x": {"cycles": 10}, "y": {"cycles": 20}}},
        {"layer": "b", "count": 3, "values": {"x": {"cycles": 40}, "y": {"cycles": 10}}},
        {"layer": "c", "count": 9, "values": {}},
    ]
    found = knob.behind(rows)
    assert found["x"] == {"geomean": 2.0, "total": 130 / 40, "layers": 2}
    assert found["y"]["total"] == 50 / 40
    assert "one for all: 1.250" in knob.summary(rows)


def test_several_knobs_are_one_and_a_space_may_lack_all_but_the_first():
    from kernels.target import CATALOGUE
    from kernels.workload.base import QConv2d

    deep = QConv2d(1, 7, 7, 1024, 64, 1, 1, data_dtype="int8", weight_range=(-127, 127), scale="small")
    for layer, others in (
        (deep, {"windows 1", "windows 2", "filters 4"}),
        (replace(deep, in_c=64), {"windows 1"}),
    ):
        found = knob.by_value(layer, "slab,order,split", CATALOGUE["rpi4"], 1)
        assert others <= {value.partition(" ")[2] for value in found}
        assert all(len(configs) == 1 for configs in found.values())
        assert len(found) == (24 if layer is deep else 7)
