"""``tilefleet calibrate``: what it writes is what a fleet file takes, and what it refuses."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernels.target import CATALOGUE
from tilefleet.calibrating import Calibration
from tilefleet.cli import app
from tilefleet.errors import TilefleetError
from worker.calibrate.figure import Figure
from worker.calibrate.target import with_figures as target_of
from worker.fleet.drivers.sim_figures import with_figures
from worker.fleet.fleet_file import read_targets

RPI4 = CATALOGUE["rpi4"]
FOUND = [
    Figure("hz", 1.5e9 - 3, "Hz", "as the clock says"),
    Figure("l1 load", 4.0, "cycles", "a list", pasted=False),
    Figure("l2_bytes", 512 << 10, "bytes", "a list"),
    Figure("l2_stream_cycles", 0.2, "cycles", "lines"),
    Figure("width", None, "a cycle", "kept: pipes limit it"),
    Figure("divide_cycles", 17.0, "cycles", "a chain"),
]


def test_what_is_written_is_what_a_fleet_file_takes() -> None:
    text = Calibration("mine", "rpi4", "wall", "rpi4-sim", FOUND, RPI4).toml()
    figures = tomllib.loads(text)["board"]["figures"]
    assert figures == {"hz": 1_499_999_997, "l2_bytes": 512 << 10, "l2_stream_cycles": 1}
    assert with_figures("rpi4-sim", figures).l2_bytes == 512 << 10
    assert "# width: kept: pipes limit it\n" in text
    assert "# divide_cycles = 17: rpi4-sim takes it from its table, or has none\n" in text
    assert "to be mended" not in text


def test_what_a_fleet_file_would_refuse_is_said() -> None:
    found = [Figure("l1_bytes", 40 << 10, "bytes", "a list")]
    assert (
        "# to be mended: l1_bytes is l1_ways"
        in Calibration("b", "rpi4", "wall", "rpi4-sim", found, RPI4).toml()
    )
    assert "l1_bytes = 40960\n" in Calibration("host", "host", "wall", "", found, RPI4).toml()


def test_what_is_written_of_a_target_is_read_as_that_target(tmp_path: Path) -> None:
    found = Calibration("b", "rpi4", "wall", "rpi4-sim", FOUND, RPI4)
    path = tmp_path / "mine.toml"
    path.write_text(found.target_toml("mine"))
    assert read_targets(path) == {"mine": target_of(RPI4, FOUND, "mine")}
    with pytest.raises(TilefleetError, match="board b gives no target: target name: only letters"):
        found.target_toml("my pi")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--board", "nope"], "unknown board 'nope'"),
        (["--board", "nope", "--fleet", "{}/fleet.toml"], "unknown board 'nope'"),
        (["--board", "host", "--output", "{}/no/figures.toml"], "there is no folder"),
        (["--board", "rpi4-sim", "--target", "mine"], "--target mine needs --output"),
    ],
)
def test_nothing_is_written_where_it_fails(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "fleet.toml").write_text('[[board]]\nid = "host"\nkind = "host"\n')
    before = sorted(tmp_path.iterdir())
    result = CliRunner().invoke(app, ["calibrate", *(word.format(tmp_path) for word in words)])
    assert result.exit_code == 1
    assert message in result.output
    assert sorted(tmp_path.iterdir()) == before
