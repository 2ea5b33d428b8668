"""``tilefleet calibrate``: what it writes is what a fleet file takes, and what it refuses."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilefleet.calibrating import Calibration
from tilefleet.cli import app
from worker.calibrate.figure import Figure
from worker.fleet.drivers.sim_figures import with_figures

FOUND = [
    Figure("hz", 1.5e9 - 3, "Hz", "as the clock says"),
    Figure("l1 load", 4.0, "cycles", "a list", pasted=False),
    Figure("l2_bytes", 512 << 10, "bytes", "a list"),
    Figure("l2_stream_cycles", 0.2, "cycles", "lines"),
    Figure("width", None, "a cycle", "kept: pipes limit it"),
    Figure("divide_cycles", 17.0, "cycles", "a chain"),
]


def test_what_is_written_is_what_a_fleet_file_takes() -> None:
    text = Calibration("mine", "rpi4", "wall", "rpi4-sim", FOUND).toml()
    figures = tomllib.loads(text)["board"]["figures"]
    assert figures == {"hz": 1_499_999_997, "l2_bytes": 512 << 10, "l2_stream_cycles": 1}
    assert with_figures("rpi4-sim", figures).l2_bytes == 512 << 10
    assert "# width: kept: pipes limit it\n" in text
    assert "# divide_cycles = 17: rpi4-sim takes it from its table, or has none\n" in text
    assert "to be mended" not in text


def test_what_a_fleet_file_would_refuse_is_said() -> None:
    found = [Figure("l1_bytes", 40 << 10, "bytes", "a list")]
    assert "# to be mended: l1_bytes is l1_ways" in Calibration("b", "rpi4", "wall", "rpi4-sim", found).toml()
    assert "l1_bytes = 40960\n" in Calibration("host", "host", "wall", "", found).toml()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--board", "nope"], "unknown board 'nope'"),
        (["--board", "nope", "--fleet", "{}/fleet.toml"], "unknown board 'nope'"),
        (["--board", "host", "--output", "{}/no/figures.toml"], "there is no folder"),
    ],
)
def test_nothing_is_written_where_it_fails(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "fleet.toml").write_text('[[board]]\nid = "host"\nkind = "host"\n')
    before = sorted(tmp_path.iterdir())
    result = CliRunner().invoke(app, ["calibrate", *(word.format(tmp_path) for word in words)])
    assert result.exit_code == 1
    assert message in result.output
    assert sorted(tmp_path.iterdir()) == before
