import os
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import int8, int8_sim
from bench.simulated import candidates
from kernels import registry
from kernels.reference import random_inputs, reference
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d
from tuner.runtimes.guest import Guest

RPI4 = CATALOGUE["rpi4"]
LAYER = QConv2d(1, 8, 8, 16, 24, 1, 1, data_zero=128, out_zero=120, weight_range=(-127, 127), scale="small")


def test_the_signed_layer_is_the_same_layer():
    data, *constants = random_inputs(LAYER, np.random.default_rng(2))
    signed = int8_sim.signed(LAYER)
    shifted = (data.astype(np.int16) - 128).astype(np.int8)
    expected = reference(LAYER, [data, *constants]).astype(np.int16) - 128
    assert np.array_equal(reference(signed, [shifted, *constants]), expected)


@pytest.mark.parametrize("layer", [LAYER, QConv2d(1, 8, 8, 16, 16, 3, 3, groups=16)], ids=str)
def test_candidates_begin_with_the_recommended_and_differ_in_shape(layer):
    conv = int8_sim.signed(layer)
    chosen = candidates(conv, RPI4, 8)
    assert chosen[0] == registry.recommendations(conv, RPI4)[0]
    assert len(set(chosen)) == len(chosen) == 8
    assert len({tuple(dict(c.knobs).get(k) for k in ("rows", "columns", "tile")) for c in chosen}) >= 2


@pytest.mark.parametrize("board", int8_sim.BOARDS)
def test_litert_computes_the_same_layer_by_the_same_clock(tmp_path, board):
    root = os.environ.get("TILEFLEET_LITERT_ARM64")
    if root is None:
        pytest.skip("TILEFLEET_LITERT_ARM64 names no folder made by python -m tuner.runtimes.guest")
    fixed, counted = int8_sim.litert([LAYER], Guest(Path(root), tmp_path, board))
    assert counted["off"]["largest"] <= 1
    assert counted["cycles"] - fixed["cycles"] > LAYER.flops / 2 / 64
    assert fixed["cycles"] > counted["cycles"] / 2  # most of what so small a layer takes
    assert counted["instructions"] > 0


def test_it_is_the_bench_of_a_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--target", int8_sim.BOARDS[0], "--suite", "resnet50", "--litert", "nowhere"]
    monkeypatch.setattr(sys, "argv", ["int8", *options])
    with pytest.raises(SystemExit, match="2"):
        int8.main()
    assert "nowhere holds no LiteRT; run python -m tuner.runtimes.guest nowhere" in capsys.readouterr().err
