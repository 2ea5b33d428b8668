"""Jobs under way in a lab the whole time, and what of them was seen in the meantime."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.soak.lab import Lab
from kernels.workload.base import Conv2d, to_json
from tilefleet import Client
from tilefleet.errors import TilefleetError

AT_ONCE = {"host": 2}
"""Jobs of a target at once, of the others one."""
TRIALS = 12
LOOK_S = 0.2
STORED = (
    "select t.id, t.job_id, t.number, g.name, r.id, r.workload_key, r.config_key, r.error, r.ranking_s,"
    " r.clock, r.document::text, jt.name from trials t join records r on r.id = t.record_id"
    " join jobs j on j.id = t.job_id join targets g on g.key = r.target_key"
    " join targets jt on jt.key = j.target_key where t.id > {after}"
)


@dataclass(frozen=True)
class Stored:
    """A trial with its record, as the database had it when it was first seen, or has it in the end."""

    job: int
    number: int
    target: str
    record: int
    workload: str
    config: str
    error: str | None
    ranking_s: float | None
    clock: str
    document: dict[str, Any]
    job_target: str

    @property
    def board(self) -> str:
        """Who measured it."""
        return str(self.document.get("board", ""))


def stored(lab: Lab, after: int = 0) -> dict[int, Stored]:
    """All trials after one, by their rows' ids. Raises psycopg.Error."""
    return {
        row[0]: Stored(*[*row[1:10], json.loads(row[10]), row[11]])
        for row in lab.rows(STORED.format(after=after))
    }


def layers(target: str) -> Iterator[Conv2d]:
    """Small workloads with many configs, each another one."""
    size = 7 if target == "rpi4" else 14
    for out, into in itertools.product(range(16, 128), range(8, 72)):
        yield Conv2d(1, into, size, size, out, 3, 3, pad=(1, 1, 1, 1))


class Work:
    """Keeps jobs of every target running until ``stop``, watches what is stored, and hears what is told."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self._lab, self._dice = lab, random.Random(seed)
        self.seen: dict[int, Stored] = {}
        """Every trial as it was when it was first seen."""
        self.arrived: dict[int, float] = {}
        """When, by this process's steady clock."""
        self.begun = time.monotonic()
        self.told: dict[tuple[int, int], str] = {}
        """Configs that were told of, by job and number."""
        self.ended: set[int] = set()
        self._layers = {target: layers(target) for target in set(lab.boards.values())}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._feed, self._watch)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def when(self, trial: int) -> float:
        """Seconds from the soak's first fault to when a trial was first seen, 0 if it was not."""
        return self.arrived.get(trial, self.begun) - self.begun

    def stop(self) -> None:
        """Submit no more."""
        self._over.set()

    def join(self, seconds: float) -> None:
        """After ``stop``: until all jobs that there are have ended and all of theirs was seen, or so long."""
        for thread in self._threads:
            thread.join(seconds)

    def _feed(self) -> None:
        while not self._over.wait(LOOK_S * 5):
            with suppress(TilefleetError, psycopg.Error, IndexError, ValueError):
                running = [
                    name
                    for (name,) in self._lab.rows(
                        "select t.name from jobs j join targets t on t.key = j.target_key"
                        " where j.state in ('queued', 'running')"
                    )
                ]
                for target, layers in self._layers.items():
                    if running.count(target) < AT_ONCE.get(target, 1):
                        self._submit(target, next(layers))

    def _submit(self, target: str, layer: Conv2d) -> None:
        url = self._dice.choice(self._lab.alive()).client.url
        with Client(url, timeout_s=30) as client:
            job = client.submit(
                target=target, workload=to_json(layer), trials=TRIALS, strategy="random", seed=1
            )
        threading.Thread(target=self._hear, args=(job.id,), daemon=True).start()

    def _hear(self, job: int) -> None:
        """Follow a job's events at one coordinator after the other."""
        while job not in self.ended:
            with suppress(Exception), Client(self._dice.choice(self._lab.alive()).client.url) as client:
                for event in client.events(job):
                    if event.name == "trial":
                        config = json.dumps(event.data["config"], sort_keys=True)
                        self.told[job, event.data["number"]] = config
                return
            time.sleep(1)

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_S)
            with suppress(psycopg.Error):
                last = self._over.is_set() and not self._lab.rows(
                    "select 1 from jobs where state in ('queued', 'running', 'cancelling')"
                )
                new = stored(self._lab, max(self.seen, default=0))
                at = time.monotonic()
                self.seen |= new
                self.arrived |= dict.fromkeys(new, at)
                ended = self._lab.rows("select id from jobs where finished is not null")
                self.ended |= {id_ for (id_,) in ended}
                if last:
                    return
