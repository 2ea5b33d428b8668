"""Dask serves no pages: neither the embedded cluster nor a scheduler started as the documents say."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path

import dask
import psutil
from distributed import Scheduler, Worker

from worker.engine.cluster import DASK

ROOT = Path(__file__).resolve().parents[2]


def listening(pid: int) -> set[tuple[str, int]]:
    """Addresses on which a process listens."""
    connections = psutil.Process(pid).net_connections("tcp")
    return {(one.laddr.ip, one.laddr.port) for one in connections if one.status == psutil.CONN_LISTEN}


def test_no_port_is_opened_for_http() -> None:
    async def run() -> set[tuple[str, int]]:
        before = listening(psutil.Process().pid)
        with dask.config.set(DASK):
            async with (
                Scheduler(protocol="inproc", dashboard=False, port=0) as scheduler,
                Worker(scheduler.address, dashboard=False, nthreads=1),
            ):
                return listening(psutil.Process().pid) - before

    assert asyncio.run(run()) == set()


def test_the_scheduler_of_the_documents_listens_at_its_port_alone() -> None:
    commands = re.findall(
        r"dask scheduler (--host .*)", (ROOT / "docs/operations.md").read_text()
    ) + re.findall(r"dask scheduler (--host .*)", (ROOT / "docker-compose.yml").read_text())
    assert len(commands) == 2
    for command in commands:
        words = re.sub(r"--port \d+", "--port 0", command).split()
        process = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_scheduler", *words],
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        try:
            deadline = time.monotonic() + 120
            while not (found := listening(process.pid)) and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(1.0)  # for what would be opened behind it
            found = listening(process.pid)
            assert len(found) == 1, (command, found)
            assert {address for address, _ in found} == {words[words.index("--host") + 1]}
        finally:
            process.kill()
            process.wait()
