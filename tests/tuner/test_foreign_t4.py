"""T4 files of other tools: read as spaces, searched, and refused where they contradict themselves."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tilefleet.cli import app
from tuner.log.foreign_t4 import read_foreign
from tuner.search.replay import best_by_trial, foreign_space

WIDTHS, ROWS = (16, 32, 64, 128), (1, 2, 4, 8)
FAILED, NO_POINT = (128, 8), (64, 8)


def result(width: int, rows: int, time_ms: float) -> dict[str, Any]:
    word = {FAILED: "runtime", NO_POINT: "constraints"}.get((width, rows), "correct")
    measured = [{"name": "time", "value": time_ms, "unit": ""}] if word == "correct" else []
    return {
        "configuration": {"width": width, "rows": rows, "padded": True, "order": "ab", "share": 0.5},
        "invalidity": word,
        "measurements": measured,
    }


def document() -> dict[str, Any]:
    """A space of 15 configs. One failed; the best has a width of 32 and 4 rows."""
    points = itertools.product(WIDTHS, ROWS)
    times = [result(width, rows, 1 + abs(width - 32) / 16 + abs(rows - 4)) for width, rows in points]
    return {"schema_version": "1.0.0", "results": times}


def test_a_space_is_searched_as_it_was_recorded() -> None:
    costs = read_foreign(document(), "stencil")
    assert len(costs) == len(WIDTHS) * len(ROWS) - 1  # what breaks the constraints is no point
    (best,) = [config for config, cost in costs.items() if cost == 1e-3]
    assert str(best) == "stencil(order=ab, padded=1, rows=4, share=0.5, width=32)"
    assert [dict(config.knobs)["width"] for config, cost in costs.items() if cost is None] == [128]
    found = foreign_space(costs)
    assert set(found.problem.space) == set(costs)
    for name in ("random", "evolution", "model", "analysis"):
        curve = best_by_trial(found, name, 99, seed=1)
        if name != "analysis":  # which has nothing but recommendations
            assert (len(curve), curve[-1]) == (len(costs), 1e-3), name


def broken(**changes: Any) -> dict[str, Any]:
    whole = document()
    whole["results"][3] |= changes
    return whole


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (broken(configuration={"width": 1}), "result 4 has the knobs .'width'., those before it"),
        (broken(configuration=result(16, 1, 1)["configuration"]), "result 4 has another time"),
        (broken(configuration={"kernel": 1}), "result 4: .* cannot be called kernel"),
        (broken(configuration={"width": [1]}), "result 4: the value of a knob must be"),
        (broken(configuration={"width": float("nan")}), "result 4 has the knobs"),
        (broken(configuration=7), "result 4: "),
        (broken(measurements=[{"name": "GFLOP/s", "value": 3}]), "no measurement 'time', but 'GFLOP/s'"),
        (broken(measurements=[{"name": "time", "value": -1}]), "result 4: a time of -0.001 s"),
        (broken(measurements=[{"name": "time", "value": float("inf")}]), "result 4: a time of inf"),
        (broken(measurements=[{"name": "time", "value": 1, "unit": "fortnight"}]), "'fortnight'"),
        (broken(invalidity=None, measurements=None), None),
        ({"schema_version": "2.0.0", "results": []}, "T4 version 2.0.0 is not 1.0.0"),
        ({"schema_version": "1.0.0", "results": []}, "none of its configs ran"),
        ({"schema_version": "1.0.0", "results": [{}]}, "result 1: it lacks 'invalidity'"),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(value: dict[str, Any], said: str | None) -> None:
    if said is None:  # a result that T4 has no word for has failed
        assert None in foreign_space(read_foreign(value, "stencil")).costs.values()
        return
    with pytest.raises(ValueError, match=said):
        foreign_space(read_foreign(value, "stencil"))


def test_the_command_searches_them_and_ends_with_one_line_of_answer(tmp_path: Path) -> None:
    for name in ("stencil.json", "other.json"):
        (tmp_path / name).write_text(json.dumps(document()))
    table = tmp_path / "curves.csv"
    arguments = ["replay", str(tmp_path / "stencil.json"), str(tmp_path / "other.json"), "--csv", str(table)]
    options = ["--strategy", "random", "--strategy", "model", "--seeds", "2", "--trials", "6"]
    done = CliRunner().invoke(app, [*arguments, *options], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "has the highest score" in done.output
    assert done.output.strip().endswith("the mean of 2 spaces, 2 runs each")
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == 2 * 2 * 2 * 6
    assert {row["space"] for row in rows} == {"stencil", "other"}
    last = [row for row in rows if row["trial"] == "6" and row["space"] == "stencil"]
    done = CliRunner().invoke(app, [*arguments, *options, "--json"])
    (first, *_) = json.loads(done.output)
    best = min(float(row["best_s"]) for row in last if row["strategy"] == first["strategy"])
    assert max(first["share_of_best"].values()) <= first["best_s"] / best + 1e-9
    (tmp_path / "stencil.json").write_text(json.dumps(broken(configuration={"width": 1})))
    done = CliRunner().invoke(app, ["replay", str(tmp_path / "stencil.json")])
    assert (done.exit_code, "stencil.json: result 4 has the knobs" in done.output.replace("\n", "")) == (
        1,
        True,
    )
