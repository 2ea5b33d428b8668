"""A killed run of tests leaves no process behind, not even one that left its session."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from process_guard import GRACE_S

ROOT = Path(__file__).resolve().parent.parent
LEFT = """
import pathlib, subprocess, time

def test_starts_something():
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    pathlib.Path({told!r}).write_text(str(left.pid))
    time.sleep(600)
"""


def test_what_a_killed_run_started_is_ended(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    (tmp_path / "test_left.py").write_text(LEFT.format(told=str(told)))
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TILEFLEET_TEST_RUN", "PYTEST_"))
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "conftest",
        "-n",
        "1",
        str(tmp_path / "test_left.py"),
    ]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as run:
        while not (told.exists() and told.read_text()):
            assert run.poll() is None
            time.sleep(0.05)
        run.kill()
    left = Path("/proc") / told.read_text()
    deadline = time.monotonic() + GRACE_S + 60
    while left.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left.exists()
