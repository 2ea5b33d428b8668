"""What ``tilefleet.tune`` says meanwhile."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console
from rich.progress import Progress

from server.jobs import schemas
from tilefleet import telling
from tilefleet.job import Job, Source
from tilefleet.sse import Event
from tilefleet.telling import Telling

EXAMPLE = dict(cast(dict[str, Any], schemas.Job.model_config["json_schema_extra"])["example"])


class Ended:
    """A source of one job that tells of its search, of the build and then of its end."""

    def __init__(self) -> None:
        running = {**EXAMPLE, "waiting": None, "elapsed_s": 30.0}
        building = {**running, "phase": "building", "eta_s": None, "elapsed_s": 66.0}
        done = {**running, "phase": None, "eta_s": None, "state": "done"}
        self._states = [Job.model_validate(each) for each in (running, building, done)]

    def events(self, _: int) -> list[Event]:
        return [Event(id="1", name=name, data={}) for name in ("progress", "trial", "progress", "end")]

    def job(self, _: int) -> Job:
        return self._states.pop(0)


def told(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[dict[str, Any]]]:
    """What a whole tuning prints, and what it does with its bar."""
    monkeypatch.setattr(telling, "REDRAW_S", 0.0)
    monkeypatch.setattr(telling, "LINE_S", 0.0)
    console, updates = Console(file=io.StringIO(), force_terminal=terminal, width=200), []
    bar = SimpleNamespace(add_task=lambda *_, **__: 0, update=lambda _, **shown: updates.append(shown))
    it = Telling(console, cast(Progress, bar))
    it.say("starting boards: host")
    assert it.follow(Job.model_validate(EXAMPLE), cast(Source, Ended())).state == "done"
    return cast(io.StringIO, console.file).getvalue(), updates


def test_a_terminal_has_a_bar_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    text, updates = told(True, monkeypatch)
    assert text == ""
    assert [each["share"] for each in updates] == [None, 0.5, 1.0]
    assert "0:52 to go" in updates[1]["description"]
    assert "builds and measures the model" in updates[2]["description"]


def test_elsewhere_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = told(False, monkeypatch)[0].splitlines()
    assert first == "starting boards: host"
    assert "running  estimate 7.17 ms  61 trials" in second
    assert "builds and measures the model" in third


def test_silence_where_it_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (True, False):
        with telling.telling(shown) as it:
            it.say("building")
        assert capsys.readouterr() == ("", "building\n" if shown else "")
