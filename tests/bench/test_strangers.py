"""The bench of strange boards: boards that can be, what is left to measure, and the table."""

from __future__ import annotations

import json
import re

import pytest

from bench import strangers
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from worker.calibrate.figure import Figure
from worker.fleet.drivers.sim_figures import with_figures

LAYER = Conv2d(1, 16, 14, 14, 32, 1, 1)
FIGURES = [Figure("l2_bytes", 131072, "bytes", "made"), Figure("products", 1.0, "a cycle", "made")]


class Board:
    """A board that is never started."""

    target = "rpi5"
    clock = "simulated:one"

    def __init__(self, _model, **_more) -> None:
        pass

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_error) -> None:
        pass


@pytest.fixture
def measured(monkeypatch, tmp_path) -> list[tuple[str, int]]:
    """What was measured: each target's name and how many configs. A config made for a stranger takes 2 s, for
    others 3 s, and the last of each sample 1 s."""
    seen: list[tuple[str, int]] = []

    def timed(_builder, _board, _workload, target, configs, _folder):
        seen.append((target.name, len(configs)))
        return [2.0 if target.name == "stranger" else 3.0] * (len(configs) - 1) + [1.0]

    def calibrate(*_arguments, **_folders):
        seen.append(("calibrated", 0))
        return FIGURES

    monkeypatch.setenv("TILEFLEET_HOME", str(tmp_path))
    monkeypatch.setattr("worker.fleet.drivers.simulated.SimulatedBoard", Board)
    monkeypatch.setattr("worker.calibrate.calibrate.calibrate", calibrate)
    monkeypatch.setattr(strangers, "_timed", timed)
    monkeypatch.setattr(strangers, "layers", lambda: {"small": LAYER})
    return seen


def test_all_boards_could_be() -> None:
    assert len(strangers.BOARDS) == 20
    for model, figures in strangers.BOARDS.values():
        with_figures(model, figures)


def test_a_sample_begins_with_the_pick_and_names_no_config_twice() -> None:
    target = CATALOGUE["rpi5"]
    configs = strangers.sample(LAYER, target, "seed")
    assert configs[0] == strangers.picked(LAYER, target)
    assert len({*configs}) == len(configs) == strangers.PREDICTED + strangers.DRAWN
    assert configs == strangers.sample(LAYER, target, "seed")


def test_it_goes_on_where_it_stopped_and_says_how_far_picks_are_behind(
    measured, tmp_path, capsys, monkeypatch
) -> None:
    path = tmp_path / "strangers.json"
    arguments = ["--json", str(path), "--boards", "pi5-small-l2"]
    assert strangers.main(arguments) == 0
    count = strangers.PREDICTED + strangers.DRAWN
    assert measured == [("calibrated", 0), ("rpi5", count), ("stranger", count)]
    rows = [re.split(r" *\| *", line)[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [
        ["pi5-small-l2", "1", "200.0 %", "100.0 %", "small, 100.0 %"],
        ["all", "1", "200.0 %", "100.0 %", ""],
    ]
    assert strangers.main(arguments) == 0
    assert len(measured) == 3
    # A pick that changed is measured alone.
    report = json.loads(path.read_text())
    times = report["boards"]["pi5-small-l2"]["layers"]["small"]["calibrated"]
    pick = strangers.picked(LAYER, strangers.targets_of("rpi5-sim", FIGURES)["calibrated"])
    del times[str(pick)]
    path.write_text(json.dumps(report))
    assert strangers.main(arguments) == 0
    assert measured[3:] == [("stranger", 1)]
    monkeypatch.setattr(Board, "clock", "simulated:other")
    with pytest.raises(SystemExit, match="was measured by the clock simulated:one; give another --json"):
        strangers.main(arguments)


def test_boards_that_nobody_knows_are_refused(capsys) -> None:
    with pytest.raises(SystemExit):
        strangers.main(["--boards", "pi9"])
    assert "there is no board pi9; there are pi4-half-caches, " in capsys.readouterr().err
