"""A service of its own for the time of a bench: nothing known beforehand, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server.jobs.schemas import Job
    from tilefleet.client import Client

START_S = 400
"""The first start builds the board agent, and with it zig's C library."""


@contextmanager
def service(**settings: str) -> Iterator[Client]:
    """Run ``tilefleet up`` with an empty state folder and give a client of it.

    ``settings`` are environment variables of the service beside the present ones.
    Raises SystemExit with what the server printed when it does not come up.
    """
    from tilefleet.client import Client

    with TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        home = Path(folder)
        # The board gets as many threads as `bench.timing.limit_threads` allows the peers.
        threads = os.environ.get("TVM_NUM_THREADS", "1")
        environment = {**os.environ, "TILEFLEET_HOME": folder, "TILEFLEET_BOARD_THREADS": threads, **settings}
        command = [sys.executable, "-m", "tilefleet", "up", "--port", "0"]
        with (home / "up.log").open("w+") as log:
            server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                with Client(_url(server, home)) as client:
                    yield client
            finally:
                server.terminate()
                try:
                    server.wait(30)
                except subprocess.TimeoutExpired:
                    server.kill()
                    server.wait()


def run_job(client: Client, **job: Any) -> Job:
    """Submit a job for this machine (arguments as ``Client.submit``) and wait for its end.

    One of fewer trials than layers ends well, too. Raises SystemExit when it does not.
    """
    ended = client.submit(target="host", **job)
    for _ in client.events(ended.id):
        pass
    ended = client.job(ended.id)
    if ended.state not in ("done", "incomplete"):
        raise SystemExit(f"bench: job {ended.id} ended as {ended.state}: {ended.message}")
    return ended


def _url(server: subprocess.Popen[bytes], home: Path) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        if (home / "url").exists():
            return (home / "url").read_text().strip()
        time.sleep(0.05)
    raise SystemExit(f"bench: the service did not start:\n{(home / 'up.log').read_text()[-2000:]}")
