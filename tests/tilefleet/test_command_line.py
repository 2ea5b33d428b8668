"""Bad input to the commands: one clear line, an exit code, no traceback."""

from __future__ import annotations

import io
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI
from rich.progress_bar import ProgressBar
from typer.testing import CliRunner

from kernels.layout import PLAIN, Layouts
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d
from tilefleet import Client
from tilefleet.cli import COMMANDS, app
from tilefleet.commands import results
from tilefleet.commands.common import working
from tilefleet.detached import KEPT_BYTES
from tilefleet.phases import Told
from tilefleet.state_lock import only_one
from tilefleet.up import _listen, _Server
from tuner.log.record import Record, write_log
from tuner.log.relayouts import Relayouts
from worker.measure.host import host_target
from worker.phases import phases, tell_share


def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        app, list(arguments), env={"TILEFLEET_URL": "http://127.0.0.1:1", **environment}
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["jobs"],
        ["models"],
        ["open"],
        ["watch", "1"],
        ["cancel", "1"],
        ["boards"],
        ["boards", "show", "x"],
        ["best"],
        ["log", "1"],
    ],
)
def test_no_server(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    code, out, err = run(*command)
    assert (code, out) == (1, "")
    assert "http://127.0.0.1:1" in err
    assert len(err.strip().splitlines()) == 1


def test_stop_ends_nothing_but_the_server_of_this_state_folder(tmp_path: Path) -> None:
    nobody = (1, "", f"tilefleet: no server runs with the state in {tmp_path}\n")
    assert run("stop", TILEFLEET_HOME=str(tmp_path)) == nobody
    lock = tmp_path / "up.lock"
    lock.write_text(f"{platform.node()} {os.getpid()}\n")  # left behind by one that was killed
    assert run("stop", TILEFLEET_HOME=str(tmp_path)) == nobody
    with only_one(tmp_path):
        lock.write_text("another-machine 1\n")
        code, _, err = run("stop", TILEFLEET_HOME=str(tmp_path))
    assert (code, "runs on another-machine" in err) == (1, True)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["submit", "/nowhere.onnx"], "/nowhere.onnx"),
        (["submit", __file__, "--shape", "x=1,b"], "'x=1,b' is not like name=1,3,224,224"),
        (["submit", __file__, "--value", "x=1,b"], "'x=1,b' is not like name=16000"),
        (["log"], "give either a JOB or --target"),
        (["log", "1", "--top", "3", "--all"], "exclude each other"),
        (["bench", "nosuch"], "'nosuch' is no benchmark; there are best_config, "),
        (["cancel", "first"], "Invalid value for 'JOB'"),
        (["jobs", "--sort", "gain"], "Invalid value for '--sort': 'gain' is not one of 'id', 'name'"),
        (["boards", "--health", "ill"], "Invalid value for '--health': 'ill' is not one of 'good'"),
        (["boards", "park", "host"], "Missing option '--reason'"),
        (["best", "--layouts", "chwn"], "unknown layout 'chwn'"),
    ],
)
def test_wrong_arguments(command: list[str], message: str) -> None:
    code, _, err = run(*command)
    assert code == 2
    assert message in err


def test_a_benchmark_answers_for_its_own_options() -> None:
    command = [sys.executable, "-m", "tilefleet", "bench", "model", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert "python -m bench.model" in done.stdout


def test_up_says_that_its_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = run("up", "--port", port, TILEFLEET_HOME=str(tmp_path))
    assert code == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in err


def test_up_names_a_wrong_setting(tmp_path: Path) -> None:
    code, _, err = run("up", TILEFLEET_HOME=str(tmp_path), TILEFLEET_MAX_MODEL_MB="many")
    assert code == 1
    assert "TILEFLEET_MAX_MODEL_MB" in err
    assert "'many'" in err


def test_a_signal_during_the_start_is_answered_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Not a minute later, when the agent is compiled that the start waits for."""
    server = _Server(uvicorn.Config("none", log_level="warning"), FastAPI(), lambda: None)
    with Told():
        server.handle_exit(signal.SIGINT, None)
        assert "stopping once what is being started is there" in capsys.readouterr().err
        assert server.should_exit
        server.handle_exit(signal.SIGINT, None)
        assert capsys.readouterr().err == ""


def test_a_start_has_a_bar_where_it_is_known_how_much_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    with Told() as told:
        (task,), bar = told._bar.tasks, told._bar.columns[2]
        phases.info("building the agent")
        assert bar.render(task) == ""
        tell_share(0.25)
        assert isinstance(shown := bar.render(task), ProgressBar)
        assert (shown.percentage_completed, task.description) == (25, "building the agent")
        tell_share(None)
        assert bar.render(task) == ""
        tell_share(0.5)
        phases.info("starting boards")
        assert bar.render(task) == ""
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[2] for line in lines] == ["building the agent", "starting boards"]


def test_up_in_the_background_says_why_it_did_not_start(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    log.write_text("an old line\n" * 200_000 + "Tilefleet is up at an earlier time\n")
    code, out, err = run("up", "--detach", "--port", "0", "--boards", "nix", TILEFLEET_HOME=str(tmp_path))
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert err.startswith("tilefleet: --boards: unknown board 'nix'")
    lines = log.read_text().splitlines()
    assert (lines[0], lines[-2]) == ("an old line", "Tilefleet is up at an earlier time")
    assert log.stat().st_size < KEPT_BYTES + 1000


def test_what_up_makes_is_closed_from_the_first_moment(tmp_path: Path) -> None:
    """It ends before the service would have closed its folder."""
    home = tmp_path / "home"
    before = os.umask(0o022)
    try:
        run("up", "--detach", "--port", "0", "--boards", "nix", TILEFLEET_HOME=str(home))
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o777 for each in (home, home / "up.log")] == [0o700, 0o600]


def test_up_says_why_the_service_did_not_start(tmp_path: Path) -> None:
    """In a process of its own, as uvicorn handles signals in the main thread only."""
    environment = os.environ | {
        "TILEFLEET_HOME": str(tmp_path),
        "TILEFLEET_DATABASE_URL": "postgresql+psycopg://nobody@127.0.0.1:1/none",
    }
    command = [sys.executable, "-m", "tilefleet", "up", "--port", "0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert "did not start" in done.stderr
    assert "Connection refused" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_passes_here(tmp_path: Path) -> None:
    code, out, _ = run("doctor", "--json", TILEFLEET_HOME=str(tmp_path))
    findings = {finding["name"]: finding for finding in json.loads(out)}
    assert code == 0, findings
    names = "python packages linker host tvm lightgbm"
    assert set(findings) == {*names.split(), "state folder", "database", "board"}
    assert findings["host"]["detail"].startswith(", ".join(host_target().instruction_sets))
    assert "largest relative error" in findings["tvm"]["detail"]


def test_doctor_says_how_to_mend_what_is_wrong(tmp_path: Path) -> None:
    code, out, _ = run(
        "doctor",
        TILEFLEET_HOME=str(tmp_path),
        TILEFLEET_REDIS_URL="redis://127.0.0.1:1/0",
        TILEFLEET_SCHEDULER="tcp://127.0.0.1:1",
        TILEFLEET_DATABASE_URL="postgresql+psycopg://nobody@127.0.0.1:1/none",
    )
    assert code == 1
    for name in ("TILEFLEET_REDIS_URL", "TILEFLEET_SCHEDULER", "TILEFLEET_DATABASE_URL"):
        assert f"mend: check {name}" in out


def test_times_of_layout_changes_in_a_log_are_no_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target, times = CATALOGUE["x86-avx2"], {"nchw>nhwc": [(1000, 1e-6)]}
    records = [
        Record(Conv2d(1, 8, 8, 8, 8, 3, 3), target, Config.of("fconv", layouts), 1, cost_s=1e-3)
        for layouts in (PLAIN, Layouts("nhwc", "nhwc"))
    ]
    lines = [Relayouts(target, 1, "wall", times).line(), *write_log(records)]
    monkeypatch.setattr(Client, "target_log", lambda *_, **__: iter(lines))
    output = tmp_path / "log.jsonl"
    assert run("log", "--target", "x", "-o", str(output))[1].startswith("2 records in")
    assert output.read_text() == "".join(lines)


def test_a_budget_of_no_trials_is_no_missing_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, object]] = []

    def send(*_: object, json: dict[str, object]) -> None:
        sent.append(json)
        raise ConnectionError

    monkeypatch.setattr(Client, "_send", send)
    for budget in ({"trials": 0}, {}):
        with pytest.raises(ConnectionError):
            Client("http://127.0.0.1:1").submit(target="host", model="0" * 64, **budget)
    assert [body.get("budget") for body in sent] == [{"trials": 0}, None]


_LIGHT = """
import sys
from tilefleet.cli import app
for line in ("jobs", "models", "best --target host", "cancel 1", "resume 1", "log 1", "boards",
             "boards park x --reason y", "forget 1", "open", "stop", "submit --help", "watch --help"):
    command = line.split()
    try:
        app(command)
    except SystemExit as end:
        assert end.code == int(command[-1] != "--help"), command
heavy = {"asyncio", "tvm", "numpy", "onnx", "distributed", "fastapi", "sqlalchemy", "worker.engine.engine",
         "kernels.target", "kernels.workload.base"}
print(sorted(heavy & set(sys.modules)), len(sys.modules))
"""


_HELP = """
import sys
from tilefleet.cli import COMMANDS, app
for line in ("--version", "--help", *(f"{command} --help" for command in COMMANDS if command != "bench")):
    try:
        app(line.split())
    except SystemExit as end:
        assert end.code == 0, line
heavy = {"asyncio", "httpx", "kernels.target", "numpy", "onnx", "rich.progress", "server.jobs.schemas", "tvm"}
print(sorted(heavy & set(sys.modules)), len(sys.modules))
"""


@pytest.mark.parametrize(("script", "most"), [(_LIGHT, 1000), (_HELP, 400)])
def test_commands_that_only_talk_to_a_server_or_explain_import_little(
    tmp_path: Path, script: str, most: int
) -> None:
    """What they import is most of what they take."""
    environment = os.environ | {"TILEFLEET_URL": "http://127.0.0.1:1", "TILEFLEET_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    heavy, _, count = done.stdout.splitlines()[-1].rpartition(" ")
    assert (heavy, int(count) < most) == ("[]", True), done.stdout + done.stderr


@pytest.mark.parametrize(
    "command", [*COMMANDS, *(f"boards {name}" for name in ("show", "park")), "agent build"]
)
def test_help_has_an_example_and_no_types_of_python(command: str) -> None:
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    if command != "bench":  # its --help is the benchmark's own
        assert f"\nExample: tilefleet {command}" in out
    assert not re.search(r"<\w|\{\w|\[\[|list\[| --\w+ dir ", out), out


def test_help_lists_all_commands_in_groups_with_whole_sentences() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert all(re.search(rf"^  {name} ", out, re.MULTILINE) for name in COMMANDS)
    assert "\nTune a model:\n" in out
    assert "..." not in out.replace("[ARGS]...", "")


def test_completion_offers_commands_options_and_values() -> None:
    for words, expected in (
        ("tilefleet re", "resume\n"),
        ("tilefleet jobs --j", "--json\n"),
        ("tilefleet build --as whe", "wheel\n"),
    ):
        environment = os.environ | {"_TILEFLEET_COMPLETE": "complete_bash", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split()) - 1)
        done = subprocess.run(
            [Path(sys.executable).with_name("tilefleet")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert expected in done.stdout, (words, done.stdout, done.stderr)


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert run("--version") == (0, f"tilefleet {version('tilefleet')}\n", "")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["-o", "/nope/net.so"], "there is no folder /nope to write net.so to"),
        (["-o", "{here}"], "{here} is a folder: name a file in it, like {here}/model.so"),
        (["--as", "c", "-o", "{here}/log.jsonl/net"], "{here}/log.jsonl is no folder: choose another one"),
        (["--as", "wheel", "-o", "{here}/log.jsonl"], "{here}/log.jsonl is no folder: choose another one"),
    ],
)
def test_a_build_looks_first_where_it_is_to_write(tmp_path: Path, more: list[str], words: str) -> None:
    (tmp_path / "log.jsonl").write_text("")
    model = tmp_path / "net.onnx"
    model.write_text("never read")
    arguments = [each.format(here=tmp_path) for each in ["--log", "{here}/log.jsonl", *more]]
    code, _, said = run("build", str(model), *arguments)
    assert (code, said.count("\n")) == (1, 1)
    assert words.format(here=tmp_path) in said
    assert {each.name for each in tmp_path.iterdir()} == {"log.jsonl", "net.onnx"}


def test_errors_name_what_the_user_wrote_once(tmp_path: Path) -> None:
    model, fleet = tmp_path / "cut.onnx", tmp_path / "fleet.toml"
    model.write_bytes(b"no model")
    fleet.write_text("x=")
    empty = tmp_path / "log.jsonl"
    empty.touch()
    code, _, err = run("check", str(model), "--log", str(empty))
    assert (code, err) == (1, f"tilefleet: {model}: is not an ONNX or TFLite model, or is truncated\n")
    code, _, err = run("up", "--fleet", str(fleet), TILEFLEET_HOME=str(tmp_path))
    assert (code, err.splitlines()[-1].startswith(f"tilefleet: --fleet: {fleet}: not TOML")) == (1, True)
    code, _, err = run("jobs", "--url", "foo")
    assert (code, "'foo' is no address of a server; it is written like http://" in err) == (1, True)


def test_what_takes_long_shows_a_clock_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    with working("being built"):
        pass
    assert said.getvalue() == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    with working("being built"):
        pass
    assert re.search(r"being built.*0:00:00", said.getvalue())


def test_a_long_log_shows_a_clock_in_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setenv("FORCE_COLOR", "1")
    log = tmp_path / "job.jsonl"
    assert results._write(iter(["{}\n"] * 1200), log) == 1200
    assert log.read_text() == "{}\n" * 1200
    assert re.search(r"reading the log: 1000 lines.*0:00:0", said.getvalue())


def test_an_answer_does_not_wait_for_the_clients_acknowledgement():
    with (
        _listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
