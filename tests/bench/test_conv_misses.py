"""bench.conv_misses: what valgrind's caches count for both sides of a layer, and its refusals."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from bench import conv_misses
from bench.suite import Layer
from kernels.workload.base import Conv2d

ODD = Layer("drawn/odd", Conv2d(1, 12, 9, 11, 24, 3, 3, stride=(2, 1), pad=(1, 0, 0, 2)), 3)
WIDE = Layer("drawn/wide", Conv2d(1, 64, 14, 14, 40, 3, 3, pad=(1, 1, 1, 1)), 1)
COLUMNS = "model,layer,n,in_c,in_h,in_w,out_c,kh,kw,stride_h,stride_w,pad_top,pad_left,pad_bottom,pad_right"
COLUMNS += ",dil_h,dil_w,groups"


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> conv_misses.Counter:
    if not shutil.which("valgrind"):
        assert os.environ.get("CI") != "true", "valgrind is missing"
        pytest.skip("valgrind is missing: make test installs it")
    return conv_misses.Counter.built(tmp_path_factory.mktemp("misses"))


def test_both_sides_are_right_and_counted(counter: conv_misses.Counter) -> None:
    for layer in (ODD, WIDE):
        row = counter.row(layer)  # which compares the results with the reference
        ours, base = row["tuned"], row["base"]["call"]
        vectors = layer.conv.flops / 2 / 8 / 24  # a load serves a block of 24 vectors of products at the most
        for side in (ours, base):
            assert side["loads"] > vectors
            assert side["loads"] > side["l1_misses"] > 0
            assert side["l1_misses"] >= side["l2_misses"] >= side["l3_misses"] == 0  # it all fits into L3
        assert ours["loads"] < base["loads"]
        assert row["count"] == layer.count


def test_all_that_is_read_misses_a_cache_that_it_does_not_fit_into(
    counter: conv_misses.Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv_misses, "L2", "4096,8,64")
    found = counter.row(WIDE)["tuned"]
    conv = WIDE.conv
    lines = 4 * (conv.in_c * conv.in_h * conv.in_w + conv.out_c * conv.in_c * conv.taps) / 64
    assert found["l2_misses"] >= lines
    assert found["l3_misses"] == 0


def test_without_valgrind_it_says_so_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suite.csv").write_text(f"{COLUMNS}\nm,l,1,4,5,5,4,1,1,1,1,0,0,0,0,1,1,1\n")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["conv_misses", "--suite", str(tmp_path / "suite.csv")])
    with pytest.raises(SystemExit, match=r"^bench\.conv_misses: valgrind is not installed$"):
        conv_misses.main()


def test_events_that_never_happened_are_none() -> None:
    text = "events: Ir Dr Dw D1mr\nfn=(1) x\n16 3 2\ntotals: 30 20\n"
    assert conv_misses.events(text) == {"Ir": 30, "Dr": 20, "Dw": 0, "D1mr": 0}


def test_the_summary_weighs_by_occurrences() -> None:
    side = {"loads": 100, "l1_misses": 10, "l2_misses": 4, "l3_misses": 1}
    more = {**side, "loads": 200, "l2_misses": 8, "l3_misses": 0}
    rows = [{"count": count, "tuned": side, "base": {"call": more}} for count in (1, 3)]
    told = conv_misses.summary(rows)
    assert "l1: 10.000 % of SConv's loads miss, 5.000 % of Base's" in told
    assert "Base / SConv 2.00" in told
    assert "fewer loads: 4 of 4 occurrences" in told
