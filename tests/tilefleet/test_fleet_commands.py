"""A fleet file in the commands and the settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernels.target import CATALOGUE
from server.settings import Settings
from server.targets.service import Targets
from tilefleet.cli import app
from tilefleet.configuration import read_settings
from tilefleet.doctor import Broken, could_start
from tilefleet.errors import TilefleetError
from worker.fleet.times import FleetTimes

FLEET = """
[[board]]
id = "near"
kind = "rpc"
target = "my-board"
address = "127.0.0.1:1"
[[board]]
id = "far"
kind = "dial"
target = "rpi5"
token_file = "far.token"
[[target]]
name = "my-board"
triple = "aarch64-linux-gnu"
cpu = "cortex-a55"
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET)
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


class NoBoards:
    def boards(self) -> list[object]:
        return []


def test_arguments_take_the_place_of_the_environment(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEFLEET_FLEET", str(fleet))
    monkeypatch.setenv("TILEFLEET_BOARDS", "rpi4-sim")
    assert [board.id for board in read_settings().plan.boards] == ["near", "far"]
    assert read_settings().host_threads == 0
    assert [board.id for board in read_settings("host,rpi4-sim").plan.boards] == ["host", "rpi4-sim"]
    assert read_settings("host").host_threads == 1
    fleet.write_text(FLEET.replace("rpi5", "rpi9"))
    with pytest.raises(
        TilefleetError, match=r"^TILEFLEET_FLEET: .*fleet\.toml: board 2 \(far\): target: 'rpi9'"
    ):
        read_settings()
    with pytest.raises(TilefleetError, match=r"^--boards: unknown board 'vax'"):
        read_settings("vax")
    monkeypatch.setenv("TILEFLEET_TIMES", '{"patience_s": 8}')
    assert replace(read_settings("host").times, patience_s=60.0) == FleetTimes()
    monkeypatch.setenv("TILEFLEET_TIMES", '{"pateince_s": 8}')
    with pytest.raises(TilefleetError, match=r"^TILEFLEET_TIMES: "):
        read_settings("host")


def test_up_names_what_is_wrong_with_a_fleet_file(tmp_path: Path) -> None:
    code, said = run("up", "--fleet", tmp_path / "none.toml")
    assert (code, len(said.strip().splitlines())) == (1, 1)
    assert "none.toml: No such file" in said
    absent = tmp_path / "fleet.toml"
    absent.write_text('[[board]]\nid = "far"\nkind = "dial"\ntarget = "rpi5"\ntoken_file = "far.token"\n')
    code, said = run("up", "--fleet", absent, "--port", "0")
    assert code == 1
    assert said.splitlines()[-1].startswith("tilefleet: the server did not start: board far: token file ")
    code, said = run("up", "--fleet", tmp_path / "none.toml", "--boards", "host")
    assert code == 2
    assert "either --boards or --fleet" in said


def test_targets_of_a_file_are_known_to_the_service_and_to_check(fleet: Path, tiny_model: Path) -> None:
    targets = Targets(NoBoards(), Settings(fleet=fleet).plan.targets)  # type: ignore[arg-type]  # all it asks of one
    assert targets.get("my-board").cpu == "cortex-a55"
    assert set(targets.known) == {*CATALOGUE, "my-board"}
    log = fleet.with_name("empty.jsonl")
    log.write_text("")
    code, said = run("check", tiny_model, "--log", log, "--targets", fleet, "--target", "my-board")
    assert code == 1
    assert "3 of 3 workloads are missing" in said
    code, said = run("check", tiny_model, "--log", log, "--target", "my-board")
    assert "unknown target 'my-board'; there are: " in said
    assert "--targets FILE" in said


def test_the_doctor_looks_at_each_board(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = Settings(fleet=fleet).plan.boards
    assert could_start(near) == "nothing answers at 127.0.0.1:1 now"
    with pytest.raises(Broken, match=r"far\.token: No such file .*; make it with: "):
        could_start(far)
    token = fleet.with_name("far.token")
    token.write_text("0123456789abcdef")
    token.chmod(0o644)
    with pytest.raises(Broken, match=r"everybody here can read .*far\.token; chmod 600"):
        could_start(far)
    token.chmod(0o600)
    assert could_start(far) == "may dial in"
    (simulated,) = Settings(boards="rpi4-sim", fleet=None).plan.boards
    monkeypatch.setenv("PATH", str(fleet.parent))
    with pytest.raises(Broken, match="apt-get install qemu-user"):
        could_start(simulated)
