"""Agents that dial in, for tests."""

import contextlib
import os
import subprocess
import time

import psutil

from bench.soak.fleet_file import free_port
from worker.fleet.drivers.agent_build import build_agent, host_triple

__all__ = ["free_port"]

TOKEN = "correct-horse-battery-staple"


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.01)


def all_gone(processes, seconds=60):
    """Whether the processes end; a zombie has ended."""
    _, left = psutil.wait_procs(processes, timeout=seconds)
    return not [process for process in left if process.status() != psutil.STATUS_ZOMBIE]


@contextlib.contextmanager
def agent(agent_dir, folder, *options, id="board", token=TOKEN, emulator=(), triple=None):
    """A running agent with these options; what it says is in ``folder/ID.log``."""
    (folder / f"{id}.token").write_text(token + "\n")
    program = build_agent(triple or host_triple(), agent_dir)
    command = [*emulator, program, "--key", id, "--token-file", folder / f"{id}.token", *map(str, options)]
    with (folder / f"{id}.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--threads", "1", "--parent", str(os.getpid())],
            stdout=subprocess.PIPE,
            stderr=log,
        )
    with process:
        try:
            yield psutil.Process(process.pid), process
        finally:
            process.kill()
