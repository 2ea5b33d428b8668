"""bench.int8 on POWER10 and Hexagon: TVM's own code and plain C of a layer, right and by the same clock."""

import sys
from pathlib import Path

import pytest

from bench import int8, int8_plain
from bench.int8_suite import QLayer
from bench.simulated import bench_on
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d
from worker.fleet.drivers.sim_models import SIM_MODELS

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(1200)]
LAYER = QConv2d(
    1, 9, 7, 12, 40, 3, 3, (2, 1), (1, 0, 2, 1), weight_range=(-127, 127), data_zero=9, out_zero=4
)
DEPTHWISE = QConv2d(1, 8, 8, 32, 32, 3, 3, pad=(1, 1, 1, 1), groups=32, weight_range=(-63, 64), scale="small")


@pytest.mark.parametrize("board", int8_plain.BOARDS)
def test_both_peers_are_exact_and_slower(board):
    target = CATALOGUE[SIM_MODELS[board].target]
    with bench_on(board) as bench:
        plain = int8_plain.Plain(board, bench.folder)
        for conv in (LAYER, DEPTHWISE):
            row = int8_plain.measured(QLayer("drawn", conv, 1), target, bench, plain, 1)
            assert row["tuned"]["cycles"] < min(row["c"], row["tvm"])
            assert "multiply-adds a cycle" in int8_plain.line(row)


def test_it_is_the_bench_of_these_targets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"bench": "conv", "settings": {}}')
    options = ["--target", "hexagon-sim", "--suite", "resnet50", "--json", str(other)]
    monkeypatch.setattr(sys, "argv", ["int8", *options])
    with pytest.raises(SystemExit, match="2"):
        int8.main()
    assert "is a report of bench.conv" in capsys.readouterr().err
