"""The bench of calibrations: it draws boards that could be, and tells what was not found again."""

from __future__ import annotations

import random
import re

import pytest

from bench import calibration
from worker.calibrate.figure import Figure
from worker.fleet.drivers.sim_figures import with_figures
from worker.fleet.drivers.sim_models import SIM_MODELS


@pytest.mark.parametrize("model", sorted(SIM_MODELS))
def test_drawn_boards_could_be(model: str) -> None:
    made = {str(calibration.drawn(model, random.Random(seed))) for seed in range(50)}
    assert len(made) > 40
    for seed in range(200):
        with_figures(model, calibration.drawn(model, random.Random(seed)))


def test_what_is_not_found_again_is_told(monkeypatch, tmp_path, capsys) -> None:
    """With a calibration that finds all but two figures, and one of these wrong."""

    class Board(calibration.SimulatedBoard):
        def start(self) -> None:
            self.own = self._figures

        def stop(self) -> None:
            pass

    def found(_nursery, board, _target, **_folders) -> list[Figure]:
        figures = {name: float(value) for name, value in vars(board.own).items() if isinstance(value, int)}
        figures["memory_cycles"] *= 1.06
        figures["l1_bytes"] *= 1.04
        told = [Figure(name, value, "", "made") for name, value in figures.items() if name != "l2_ways"]
        return [*told, Figure("l2_ways", None, "", "kept: no")]

    monkeypatch.setenv("TILEFLEET_HOME", str(tmp_path))
    monkeypatch.setattr(calibration, "SimulatedBoard", Board)
    monkeypatch.setattr(calibration, "calibrate", found)
    assert calibration.main(["--board", "rpi4-sim", "--count", "2"]) == 1
    said = capsys.readouterr().out
    assert len(re.findall(r"rpi4-sim, set \d: \d+ figures, 1 outside, 1 untold", said)) == 2
    assert len(re.findall(r"  OUTSIDE memory_cycles: \d+, found [\d.]+", said)) == 2
    assert len(re.findall(r"  l2_ways: \d+, not told: kept: no", said)) == 2
