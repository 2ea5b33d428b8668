"""Commands that take over two seconds show a clock in a terminal, and nothing elsewhere."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernels.workload.base import Gemm, to_json

PATIENCE_S = 120
CLOCK = rb"\d:\d\d:\d\d"
WORKLOAD = json.dumps(to_json(Gemm(m=8, n=8, k=8)))
EXPLAIN = ["explain", WORKLOAD, "--target", "x86-avx2", "--config", "analysis", "--json"]
SERVER = """
import signal, sys, time
from pathlib import Path
from tilefleet.state_lock import only_one

with only_one(Path(sys.argv[1])):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(time.sleep(3)))
    print("there", flush=True)
    time.sleep(300)
"""


def surroundings(home: Path) -> dict[str, str]:
    given = {name: value for name, value in os.environ.items() if not name.startswith("TILEFLEET_")}
    return {**given, "TILEFLEET_HOME": str(home), "TERM": "xterm", "COLUMNS": "200"}


def seen(arguments: list[str], home: Path, *wanted: str) -> None:
    """Run a command whose standard error is a terminal until all of ``wanted`` stood beside a clock."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tilefleet", *arguments]
    with subprocess.Popen(
        command,
        cwd=home,
        env=surroundings(home),
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        start_new_session=True,
    ) as running:
        os.close(theirs)
        said, missing, deadline = b"", list(wanted), time.monotonic() + PATIENCE_S
        try:
            while missing:
                assert time.monotonic() < deadline, (missing, said[-2000:])
                if not select.select([ours], [], [], 1)[0]:
                    continue
                try:
                    said += os.read(ours, 65536)
                except OSError:  # what Linux says at the end of a terminal
                    break
                lines = re.findall(rb"[^\r\n]*" + CLOCK, said)
                missing = [each for each in wanted if not any(each.encode() in line for line in lines)]
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
            os.close(ours)
    assert not missing, said[-2000:]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["doctor"], ["looking at: tvm", "looking at: host"]),
        (EXPLAIN, ["compiling "]),
        (["agent", "build", "--target", "rpi4", "-o", "agent"], ["building the agent for aarch64"]),
        (["up", "--port", "0", "--boards", "host"], ["building the agent for"]),
    ],
    ids=lambda value: value[0] if value[0] in ("doctor", "explain", "agent", "up") else "",
)
def test_a_clock_is_shown_in_a_terminal(tmp_path: Path, arguments: list[str], wanted: list[str]) -> None:
    seen(arguments, tmp_path, *wanted)


def test_models_are_named_beside_the_clock(tmp_path: Path, tiny_model: Path) -> None:
    seen(["compare", str(tiny_model)], tmp_path, "tiny.onnx: looking for runtimes")
    baseline = ["--baseline", str(tmp_path / "baseline.json"), "--update"]
    seen(["ci", str(tiny_model), *baseline, "--target", "rpi4"], tmp_path, "starting rpi4-sim")


def test_stop_shows_a_clock_until_the_service_has_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"there\n"
        try:
            seen(["stop"], tmp_path, "waiting for the service to end")
        finally:
            server.terminate()


def test_elsewhere_nothing_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tilefleet", *EXPLAIN]
    done = subprocess.run(
        command, env=surroundings(tmp_path), capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["text"] == str(Gemm(m=8, n=8, k=8))
