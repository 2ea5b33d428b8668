"""``tilefleet replay --plot``: every strategy's curve and band in one SVG."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from tilefleet.cli import app
from tilefleet.commands.replay_plot import BOTTOM, HEIGHT, TOP, plot

NAME = "{http://www.w3.org/2000/svg}"


def heights(path: str) -> list[float]:
    return [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", path)]


def drawn(text: str, kind: str) -> list[str]:
    """The paths of a kind."""
    paths = ElementTree.fromstring(text).iter(f"{NAME}path")
    return [each.get("d", "") for each in paths if each.get("class", "").startswith(kind)]


def test_a_line_is_the_median_and_a_band_the_middle_half() -> None:
    runs = [[2.0, 2.0, 1.0], [2.0, 1.25, 1.0], [2.0, 1.0]]
    text = plot({"one": (1.0, {"model": runs, "random": [[4.0] * 3]})})
    model, random = (each for each in drawn(text, "line") if "h" not in each)
    low, high = HEIGHT - BOTTOM, TOP  # of 20 and of 100 per cent
    shares = [100 - 80 * (y - high) / (low - high) for y in heights(model)]
    assert shares == pytest.approx([50, 80, 100], abs=0.1)
    assert [100 - 80 * (y - high) / (low - high) for y in heights(random)] == pytest.approx([25] * 3, abs=0.1)
    band = [100 - 80 * (y - high) / (low - high) for y in heights(drawn(text, "band")[0])]
    assert band == pytest.approx([50, 90, 100, 100, 65, 50], abs=0.1)


def test_names_are_text_and_odd_runs_are_drawn() -> None:
    odd = {
        "<script>&": (1.0, {f"s{at}": [[math.inf, 1.0]] for at in range(10)}),
        "short": (1.0, {"s0": [[1.0]]}),
    }
    text = plot(odd)
    assert "<script>" not in text
    assert len(drawn(text, "band")) == 11
    assert "nan" not in text
    said = [each.text for each in ElementTree.fromstring(text).iter(f"{NAME}text")]
    assert {"<script>&", "short", "s9"} <= set(said)


def test_the_command_draws_spaces_of_one_name_apart(tmp_path: Path) -> None:
    results = [
        {
            "configuration": {"width": width},
            "invalidity": "correct",
            "correctness": 1,
            "times": {},
            "measurements": [{"name": "time", "value": float(width), "unit": "ms"}],
        }
        for width in (1, 2, 3, 4)
    ]
    files = [tmp_path / each / "stencil.json" for each in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text(json.dumps({"schema_version": "1.0.0", "results": results}))
    picture = tmp_path / "curves.svg"
    options = ["--strategy", "random", "--strategy", "exhaustive", "--seeds", "2", "--plot"]
    done = CliRunner().invoke(app, ["replay", *map(str, files), *options, str(picture)])
    assert done.exit_code == 0, done.output
    text = picture.read_text()
    said = [each.text for each in ElementTree.fromstring(text).iter(f"{NAME}text")]
    assert {"stencil", "stencil, 2", "random", "exhaustive"} <= set(said)
    assert len(drawn(text, "band")) == 4
    done = CliRunner().invoke(app, ["replay", str(files[0]), *options, str(tmp_path / "no" / "x.svg")])
    assert (done.exit_code, "cannot be written" in done.output) == (1, True)
