"""Dask under a clock that is set."""

from __future__ import annotations

import subprocess
import sys

SET_BACK = """
import asyncio, sys, time

real, ahead = time.time, 3600.0
time.time = lambda: real() + ahead  # before Dask and Tornado take it over

import dask
from distributed import Client, Scheduler

from worker.engine import cluster

async def main():
    global ahead
    dask.config.set(cluster.DASK)
    async with Scheduler(protocol="tcp", host="127.0.0.1", port=0, dashboard=False) as scheduler:
        async with cluster.ContextWorker(scheduler.address, nthreads=1, dashboard=False):
            async with Client(scheduler.address, asynchronous=True) as client:
                for number in range(60):
                    ahead = 3600.0 if number < 30 else 0.0
                    async with asyncio.timeout(20):
                        assert await client.submit(int.__add__, number, 1) == number + 1
                    await asyncio.sleep(0)
    print("all came")

asyncio.run(main())
"""


def test_what_is_sent_arrives_also_when_the_clock_was_set_back() -> None:
    said = subprocess.run([sys.executable, "-c", SET_BACK], capture_output=True, text=True, timeout=200)
    assert "all came" in said.stdout, said.stderr[-2000:]
