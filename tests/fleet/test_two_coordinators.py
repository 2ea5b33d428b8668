"""Two coordinators share a PostgreSQL and a Redis server: what one leaves undone the other does."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import psutil
import psycopg
import pytest
from databases import new_database
from fleet_accounts import JOB_S, layer

from bench.soak.world import Service, World, stopped, wait_for
from kernels.workload.base import to_json
from tilefleet import Client
from tuner.log.record import read_log

pytestmark = [pytest.mark.xdist_group("two coordinators"), pytest.mark.timeout(900)]


@dataclass
class Pair:
    """Two services, each with this machine as its board, and a client's ear at the second."""

    services: list[Service]
    url: str
    told: list[dict[str, Any]] = field(default_factory=list)

    def follow(self, service: Service, job: int) -> threading.Thread:
        def listen() -> None:
            with Client(service.client.url) as client, suppress(Exception):
                self.told += [each.data for each in client.events(job) if each.name == "trial"]

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        return thread

    def rows(self, statement: str) -> list[Any]:
        """The answer of the database itself."""
        with psycopg.connect(self.url.replace("+psycopg", "")) as connection:
            return connection.execute(statement).fetchall()


@pytest.fixture(scope="module")
def pair(world: World, postgres: str, redis_url: str) -> Iterator[Pair]:
    """Both coordinators."""
    url = new_database(postgres)
    shared = {"TILEFLEET_DATABASE_URL": url, "TILEFLEET_REDIS_URL": redis_url}
    services = [Service(world, name=name, **shared) for name in ("first", "second")]
    services[0].wait_good("host")
    yield Pair(services, url)
    for service in services:
        if service.process.poll() is None:
            service.stop()


@pytest.mark.parametrize("death", ["killed", "stopped"])
def test_the_other_takes_the_jobs_of_a_dead_one(pair: Pair, death: str) -> None:
    """It may also have stood still only: when it wakes up it keeps and tells nothing more."""
    first, second = pair.services
    given = {"target": "host", "workload": to_json(layer(40 + len(death))), "trials": 20}
    job = first.client.submit(**given, strategy="random", seed=1).id
    pair.told.clear()
    ear = pair.follow(second, job)
    wait_for(lambda: second.client.job(job).trials >= 4, JOB_S, lambda: second.client.job(job))
    (owner,) = pair.rows(f"select owner from jobs where id = {job}")[0]
    assert f"/{first.process.pid}/" in owner
    asleep: AbstractContextManager[None] = nullcontext()
    if death == "killed":
        first.process.kill()
        first.process.wait()
    else:
        asleep = stopped(psutil.Process(first.process.pid), *first.tree())

    def taken() -> bool:
        (now,) = pair.rows(f"select owner from jobs where id = {job}")[0]
        return now is None or f"/{second.process.pid}/" in now

    with asleep:
        died = time.monotonic()
        wait_for(taken, JOB_S, lambda: second.client.job(job))
        print(f"taken after {time.monotonic() - died:.1f} s")
    ended = wait_for(lambda: (now := second.client.job(job)).ended and now, JOB_S, second.client.boards)
    ear.join(JOB_S)
    assert (ended.state, ended.trials, ended.failed) == ("done", 20, 0), ended
    records = list(read_log(second.client.job_log(job, "all")))
    assert len({each.identity for each in records}) == len(records) == 20
    told = Counter(json.dumps(each["config"], sort_keys=True) for each in pair.told)
    assert set(told.values()) == {1}, "a trial was told twice"
    assert len(told) >= 19, "what was stored in the moment of death may be untold"
    numbers = sorted(number for (number,) in pair.rows(f"select number from trials where job_id = {job}"))
    assert numbers == list(range(20))
    leases = pair.rows("select board, started, ended from leases order by board, token")
    for (board, _, end), (next_board, begin, _) in pairwise(leases):
        assert board != next_board or end <= begin + 1e-6, "two had the board at once"
    if death == "killed":
        first.start()
    else:
        other = first.client.submit(**{**given, "workload": to_json(layer(60)), "trials": 4}).id
        wait_for(lambda: first.client.job(other).state == "done", JOB_S, lambda: first.client.job(other))


def test_a_job_is_cancelled_by_either(pair: Pair) -> None:
    first, second = pair.services
    job = first.client.submit(target="host", workload=to_json(layer(70)), trials=400).id
    wait_for(lambda: second.client.job(job).trials >= 2, JOB_S)
    assert second.client.cancel(job).state == "cancelling"
    wait_for(lambda: second.client.job(job).state == "cancelled", JOB_S)
