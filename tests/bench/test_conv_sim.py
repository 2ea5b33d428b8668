"""bench.conv on a simulated board: which configs it takes, its figures, and OpenBLAS under the same clock."""

import sys
from pathlib import Path

import numpy as np
import pytest

from bench import conv, conv_host, conv_sim, openblas, timing
from bench.simulated import bench_on, candidates
from bench.suite import Layer
from kernels import registry
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from tuner.runtimes.debian import FetchError

POWER10 = CATALOGUE["power10"]
LAYER = Layer("drawn/layer", Conv2d(1, 12, 9, 11, 24, 3, 3, stride=(2, 1), pad=(1, 0, 0, 2)), 3)
SUITE = "model,layer,n,in_c,in_h,in_w,out_c,kh,kw,stride_h,stride_w,pad_top,pad_left,pad_bottom,pad_right"
SUITE += ",dil_h,dil_w,groups\ndrawn,layer,1,12,9,11,24,3,3,2,1,1,0,0,2,1,1,1\n"


def test_families_are_all_that_is_measured():
    chosen = candidates(LAYER.conv, POWER10, 5, ["sconv", "sconv_mma"])
    assert {config.kernel for config in chosen} == {"sconv", "sconv_mma"}
    assert len(chosen) == len(set(chosen)) == 5
    assert chosen[0] in registry.recommendations(LAYER.conv, POWER10)
    assert not candidates(LAYER.conv, POWER10, 5, ["depthwise"])


def test_every_board_with_a_peer_has_a_peak():
    assert conv_sim.PEAK_FLOPS_A_CYCLE.keys() == openblas.BUILDS.keys()


def test_openblas_computes_the_same_layer_by_the_same_clock(tmp_path: Path) -> None:
    try:
        peer = openblas.fetch("power10-sim", tmp_path)
    except FetchError as error:
        pytest.skip(f"OpenBLAS for POWER10 cannot be fetched: {error}")
    counted = conv_sim.base(LAYER, peer, tmp_path)
    assert counted["core"] == "POWER10"
    assert 0 < counted["im2col"]["cycles"] < counted["call"]["cycles"]
    assert counted["call"]["cycles"] > LAYER.conv.flops / 64
    assert 0 < counted["packing"]["cycles"] + counted["im2col"]["cycles"] < counted["call"]["cycles"]
    again = conv_sim.base(LAYER, peer, tmp_path)
    assert abs(again["call"]["cycles"] / counted["call"]["cycles"] - 1) < 0.02


def test_without_a_peer_the_rest_of_the_table_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(board: str, cache: Path) -> openblas.OpenBlas:
        raise FetchError("apt-get update failed: no network")

    monkeypatch.setattr(openblas, "fetch", away)
    (tmp_path / "suite.csv").write_text(SUITE)
    options = ["--target", "power10-sim", "--suite", str(tmp_path / "suite.csv"), "--families", "sconv_mma"]
    report = ["--candidates", "2", "--json", str(tmp_path / "report.json")]
    monkeypatch.setattr(sys, "argv", ["conv", *options, *report])
    conv.main()
    said = capsys.readouterr().out
    assert "no im2col + OpenBLAS here: apt-get update failed: no network" in said
    assert "of the peak (median of 1 layers)" in said
    conv.main()  # what is there already is not measured again
    assert capsys.readouterr().out.count("M cycles") == 0


def test_this_machine_has_rows_of_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "pin", lambda _: None)
    monkeypatch.setattr(conv_host, "ROUNDS", 2)
    (row,) = conv_host.rows([LAYER], ["sconv"], 2, True)
    assert {row[of]["config"]["kernel"] for of in ("tuned", "analysis")} == {"sconv"}
    whole = {**row, "flops": LAYER.conv.flops}
    assert conv_sim.ratio(whole) > 0
    assert 0 < conv_sim.share(whole) < 1.5
    assert row["shares"]["ours"].keys() == {"call", "packing", "kernel"}
    assert row["shares"]["base"]["im2col"] < row["shares"]["base"]["call"]


def test_what_no_family_computes_is_refused():
    with bench_on("power10-sim") as bench, pytest.raises(SystemExit, match="none of depthwise computes"):
        conv_sim.ours(LAYER, POWER10, bench, ["depthwise"], 2, 60)


def test_groups_are_refused_by_the_peer(tmp_path: Path) -> None:
    layer = Conv2d(1, 8, 5, 5, 8, 3, 3, groups=2)
    with pytest.raises(ValueError, match="without groups"):
        openblas.OpenBlas("power10-sim", tmp_path).conv(layer, np.zeros(1), np.zeros(1), tmp_path)
