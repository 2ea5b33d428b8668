"""``tilefleet agent build``: what it makes is an agent for the board, and what it says starts it."""

import json
import shlex
import subprocess
import time

import pytest
from typer.testing import CliRunner

from tilefleet.cli import app
from worker.fleet.drivers.dial import DialedBoard
from worker.fleet.drivers.gateway import Gateway

TOKEN = "a-token-of-many-letters"
MACHINES = {"rpi4": 183, "rpi4-32": 40, "power10": 21, "riscv-k1": 243, "x86_64-linux-gnu": 62}
"""ELF's numbers."""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEFLEET_HOME", str(tmp_path / "home"))
    return lambda *words: CliRunner().invoke(app, ["agent", "build", *map(str, words)])


def test_the_printed_command_starts_a_board(run, tmp_path):
    board = DialedBoard("desk", gateway := Gateway(port=0), TOKEN)
    board.start()
    (tmp_path / "desk.token").write_text(TOKEN)
    where = f"127.0.0.1:{gateway.port}"
    done = run("-o", tmp_path / "agent", "--id", "desk", "--coordinator", where, "--json")
    assert done.exit_code == 0, done.output
    command = shlex.split(json.loads(done.output)["command"])
    with subprocess.Popen(command, cwd=tmp_path) as agent:
        try:
            end = time.monotonic() + 120
            while not board.alive():
                assert time.monotonic() < end
                time.sleep(0.02)
        finally:
            agent.kill()
            board.stop()


@pytest.mark.parametrize("target", MACHINES)
def test_the_agent_is_for_the_target(run, tmp_path, target):
    output = tmp_path / "agent"
    done = run("--target", target, "-o", output)
    assert done.exit_code == 0, done.output
    assert f"./agent --key {target} --dial 127.0.0.1:8471 --token-file {target}.token" in done.output
    assert int.from_bytes(output.read_bytes()[18:20], "little") == MACHINES[target]
    assert output.stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--target", "rpi9"], "unknown target 'rpi9'; there are"),
        (["--target", "sparc64-linux-gnu"], "only for aarch64, arm, hexagon, "),
        (["--target", "armv6-linux-gnueabihf"], "no agent can be built for 'armv6-linux-gnueabihf'"),
        (["--id", "two words"], "a board's id is"),
    ],
)
def test_what_cannot_be_is_said(run, tmp_path, words, problem):
    done = run(*words, "-o", tmp_path / "agent")
    assert done.exit_code == 1
    assert problem in done.output
