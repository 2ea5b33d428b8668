"""``tilefleet replay``: strategies on a log that has every point of its space, and on one that has a few."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernels import registry
from kernels.numerics import Numerics
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from tilefleet.cli import app
from tuner.log import t4
from tuner.log.record import Record, write_log
from tuner.search.problem import Problem
from tuner.search.replay import best_by_trial, recorded
from worker.outcome import ErrorKind

TARGET = CATALOGUE["rpi4"]
WORKLOAD = Conv2d(1, 8, 8, 8, 8, 3, 3)
LAST = '''
from tuner.search.strategies.base import Strategy

class Last(Strategy):
    """Tries the slowest predicted first."""

    name = "last"

    def suggest(self, n):
        order = sorted(self.problem.space, key=self.problem.predict, reverse=True)
        return [config for config in order if self.is_new(config)][:n]
'''


def everything() -> list[Record]:
    """A record of every point, by a formula: the last is the fastest, one in nine fails."""
    configs = [
        config for space in Problem.of(WORKLOAD, TARGET, Numerics.RELAXED).space.spaces for config in space
    ]
    made = []
    for number, config in enumerate(sorted(configs, key=lambda config: config.key)):
        version = registry.kernel(config.kernel).version
        record = Record(WORKLOAD, TARGET, config, version, cost_s=1e-3 / (1 + number))
        if number % 9 == 4:
            record = replace(record, cost_s=None, error=ErrorKind.CRASH)
        made.append(record)
    return made


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_a_whole_space_is_found_whole() -> None:
    records = everything()
    assert len(records) > 12
    found = recorded(records)
    assert (found.share, found.counted, len(found.costs)) == (1.0, True, len(records))
    for name in ("random", "evolution", "model"):
        curve = best_by_trial(found, name, 10 * len(records), seed=3)
        assert len(curve) == len(records), name  # each point once, and then it has no more to ask
        assert curve == sorted(curve, reverse=True)
        assert curve[-1] == found.best_s == min(r.cost_s for r in records if r.cost_s)
        assert curve == best_by_trial(found, name, 10 * len(records), seed=3)


def test_a_part_says_how_much_of_the_space_it_is() -> None:
    records = everything()
    part = [*records[:10], replace(records[10], kernel_version=999)]
    found = recorded(part)
    assert (len(found.costs), found.points, found.old) == (10, len(records), 1)
    assert found.share == pytest.approx(10 / len(records))
    assert set(found.problem.space) == set(found.costs)
    assert len(best_by_trial(found, "random", 99, seed=0)) == 10
    assert math.isfinite(best_by_trial(found, "model", 99, seed=0)[-1])
    with pytest.raises(ValueError, match="not of one workload"):
        recorded([*records, replace(records[0], threads=2)])
    with pytest.raises(ValueError, match="no record of conv"):
        recorded([each for each in records if each.error])


def test_the_command_prints_a_table_for_a_strategy_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    Path("my_last.py").write_text(LAST)
    records = everything()
    Path("log.jsonl").write_text("".join(write_log(records)))
    Path("log.t4").write_text(t4.dumps(records))
    arguments = ("--strategy", "my_last:Last", "--strategy", "random", "--trials", 10)
    for space in ("log.jsonl", "log.t4"):
        code, text = run("replay", space, *arguments)
        assert code == 0, text
        assert "my_last:Last" in text
        assert f"{len(records)} of {len(records)} (100.0%)" in " ".join(text.split())
    code, text = run("replay", "log.jsonl", *arguments, "--json")
    mine, others = json.loads(text)
    assert (mine["strategy"], others["strategy"], mine["recorded"]) == (
        "my_last:Last",
        "random",
        len(records),
    )
    assert list(mine["share_of_best"]) == ["1", "2", "5", "10"]
    assert 0 < mine["share_of_best"]["1"] <= mine["share_of_best"]["10"] <= 1
    code, text = run("replay", "log.jsonl", "--strategy", "my_last:First")
    assert (code, "my_last:First cannot be imported" in text) == (1, True)
    code, text = run("replay", "log.jsonl", "--workload", "beef")
    assert (code, "no record of workload beef" in text) == (1, True)


def test_a_strategy_that_leaves_its_space_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    stray = LAST.replace("Last", "Stray").replace(
        "return [", "return [type(self.problem.seeds[0]).of('x')] or ["
    )
    (tmp_path / "my_stray.py").write_text(stray)
    with pytest.raises(ValueError, match=r"my_stray:Stray asked for x\(\), which is not in"):
        best_by_trial(recorded(everything()), "my_stray:Stray", 20, 0)
