"""Jobs under way, and the account that each must give whatever was killed under it."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import closing
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import Any

import psutil

from bench.soak.world import Service, wait_for
from kernels.workload.base import Conv2d, to_json
from tilefleet import Client
from tuner.log.record import Record, read_log

JOB_S, TOLD_S = 400, 15
"""Only a job that hangs takes so long; how long the end of one may take to be told."""


def layer(channels: int) -> Conv2d:
    """A small workload with many configs; each of its own, as what is known is not measured again."""
    return Conv2d(1, channels, 14, 14, 32, 3, 3, pad=(1, 1, 1, 1))


class Job:
    """A job of one workload, with the trials that it has told of."""

    def __init__(self, service: Service, target: str, workload: Conv2d, trials: int) -> None:
        self.service, self.target, self.trials = service, target, trials
        client = service.client
        self.before = {board.id: board for board in client.boards() if board.target == target}
        self.marks = {board: service.mark(board) for board in self.before}
        given = {"target": target, "workload": to_json(workload), "trials": trials}
        self.id = client.submit(**given, strategy="random", seed=1).id
        self.told: list[dict[str, Any]] = []
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    def _follow(self) -> None:
        with Client(self.service.client.url) as client:
            try:
                for event in client.events(self.id):
                    if event.name == "trial":
                        self.told.append(event.data)
            except Exception:  # the coordinator is among those that are killed
                return

    def measured(self, count: int) -> None:
        """Wait until so many trials have ended."""
        wait_for(lambda: len(self.told) >= count, JOB_S, lambda: self.told)

    def wait(self) -> Any:
        """The job once it has ended."""

        def ended() -> Any:
            job = self.service.client.job(self.id)
            return job if job.ended else None

        job = wait_for(ended, JOB_S, lambda: (self.service.client.job(self.id), self.service.client.boards()))
        # Without Redis a coordinator does not hear of what another one does with the job.
        self._follower.join(TOLD_S)
        return job

    def records(self) -> list[Record]:
        """All its records."""
        return list(read_log(self.service.client.job_log(self.id, "all")))

    def history(self, board: str) -> list[Any]:
        """What happened to a board since the job was submitted."""
        return self.service.history(board, self.marks[board])


def settled(*jobs: Job, errors: Collection[str] = (), leases_lost: bool = False) -> list[Record]:
    """Assert that jobs came to their end with every measurement kept, once, on boards where it belongs.

    The jobs are all those that their boards had since the first. ``errors`` are kinds that some trials may
    have. Where leases were lost, what was measured last under them is rightly thrown away, and the boards'
    own counts with it. Returns all records.
    """
    kept: list[Record] = []
    now = {board.id: board for board in jobs[0].service.client.boards()}
    for job in jobs:
        ended, records = job.wait(), job.records()
        assert ended.state == "done", (ended, job.service.client.boards())
        states = {str(task.state) for task in job.service.client.tasks(job.id)}
        flat = states == {"plateau"}  # as much has not helped: it may end before its budget does
        assert ended.trials == len(records), (ended, len(records))
        assert flat or ended.trials == job.trials, (ended, states)
        found = {record.error.value for record in records if record.error}
        assert found <= set(errors), [record.message for record in records if record.error]
        told = Counter(json.dumps([each["workload"], each["config"]], sort_keys=True) for each in job.told)
        assert max(told.values()) == 1, "a config was measured twice"
        assert len(told) == ended.trials or leases_lost
        assert len({record.identity for record in records}) == len(records)
        for record in records:
            assert (record.target.name, record.clock) == (job.target, now[record.board].clock)
        kept += records
    now = {board.id: board for board in jobs[0].service.client.boards()}
    counted = sum(now[board].trials - before.trials for board, before in jobs[0].before.items())
    measured = sum(1 + record.remeasured for record in kept)
    assert counted <= measured, "a board measured what no record tells"
    assert counted == measured or leases_lost
    exclusive(jobs[0].service)
    return kept


def exclusive(service: Service) -> list[sqlite3.Row]:
    """Assert that no board ever had two leases at once; all leases, the oldest first."""
    with closing(sqlite3.connect(database(service), timeout=60)) as db:
        db.row_factory = sqlite3.Row
        leases = db.execute("select * from leases order by board, token").fetchall()
    for one, next_one in pairwise(leases):
        if one["board"] == next_one["board"]:
            assert one["ended"] is not None, "an active lease is the last one"
            assert one["ended"] <= next_one["started"] + 1e-6
    return leases


def database(service: Service) -> str:
    """The book that the service keeps."""
    return str(service.world.home / "book.sqlite3")


def leased(job: Job, board: str) -> int:
    """The lease of a board that a job has now, or 0."""
    with closing(sqlite3.connect(database(job.service), timeout=60)) as db:
        mine = "select max(token) from leases where state = 'active' and job = ? and board = ?"
        return int(db.execute(mine, (job.id, board)).fetchone()[0] or 0)


def caught(job: Job, board: str, find: Callable[[], psutil.Process]) -> psutil.Process:
    """Suspend a process that a job needs on a board, in the middle of a lease that cannot end without it."""

    def suspended() -> psutil.Process | None:
        process, lease = find(), leased(job, board)
        if not lease:
            return None
        process.suspend()
        time.sleep(1)  # what it had done before has been told by then, and the lease has ended
        if process.is_running() and process.status() == psutil.STATUS_STOPPED and leased(job, board) == lease:
            return process
        process.resume()
        return None

    return wait_for(suspended, JOB_S, lambda: job.service.client.job(job.id))


def probed(job: Job, board: str, *kinds: str) -> None:
    """Assert that something of these kinds befell a board, and then a check that made it good again."""
    job.service.wait_good(board)
    history = job.history(board)
    after = list(dropwhile(lambda event: event.kind not in (kinds or ("fault",)), history))
    assert after, history
    assert "good_check" in [event.kind for event in after], after
    checks = [event for event in after if event.kind == "check"]
    assert checks[-1].detail["problem"] == ""


def first_waits(payload: dict[str, Any], _: Callable[[Any], None]) -> int:
    """In a child beside a board: how often it was called, the first time after a long wait."""
    with Path(payload["calls"]).open("a+") as calls:
        calls.write("called\n")
        calls.flush()
        calls.seek(0)
        count = len(calls.readlines())
    if count == 1:
        time.sleep(JOB_S)
    return count
