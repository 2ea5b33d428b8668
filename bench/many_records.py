"""Processor time that each question about records takes in a database of many records.

``python -m bench.many_records --records 1000000 [--database-url URL] --json FILE``
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import select

from bench.best_config import fill
from kernels.target import CATALOGUE
from server.app import create_app
from server.db.database import Database
from server.db.tables import JobRow, RecordRow, TaskRow, TrialRow
from server.records.bests import choose_anew
from server.settings import Settings
from tuner.states import JobState
from worker.children.nursery import Nursery

_ENOUGH = "x86-avx2"  # a target of the catalogue that has records
RECOMMENDED = 4
"""How many of a task's trials have recommended configs."""


def questions(workload: str, target: str, job: int) -> dict[str, str]:
    """The path of each question, by its name in the table."""
    records, log = "/api/v1/records", f"/api/v1/targets/{target}/log?select="
    some = f"target={target}"
    return {
        "records": f"{records}?limit=100",
        "records, newest": f"{records}?sort=newest",
        "records, fastest": f"{records}?sort=fastest",
        "records, slowest": f"{records}?sort=slowest",
        "records, highest rate": f"{records}?sort=highest_rate",
        "a kernel's, fastest": f"{records}?kernel=bench&sort=fastest",
        "a target's, highest rate": f"{records}?{some}&sort=highest_rate",
        "found by words": f"{records}?search=gemm+164",
        "found by a word in many": f"{records}?search=12&sort=newest",
        "of a clock that is not there": f"{records}?clock=x&sort=fastest",
        "of so many threads": f"{records}?threads=7&sort=highest_rate",
        "of some threads, without error": f"{records}?error=none&sort=fastest&threads=1",
        "failures, fastest": f"{records}?error=any&sort=fastest",
        "of a kernel that is not there": f"{records}?kernel=nope",
        "failures": f"{records}?error=any",
        "failures of a kind": f"{records}?error=crash",
        "damaged": f"{records}/damaged",
        "best configs of a target": f"/api/v1/configs?{some}&limit=100",
        "best configs, any layouts": f"/api/v1/configs?{some}&limit=100&layouts=any",
        "best config": f"/api/v1/configs/best?workload={workload}&{some}",
        "recent bests": "/api/v1/configs/recent",
        "workloads": "/api/v1/workloads?limit=50",
        "a target's workloads": f"/api/v1/workloads?{some}",
        "workload": f"/api/v1/workloads/{workload}",
        "its trials": f"/api/v1/workloads/{workload}/trials?{some}",
        "records by minute": f"{records}/rate",
        "jobs": "/api/v1/jobs",
        "a job's tasks": f"/api/v1/jobs/{job}/tasks",
        "its progress": f"/api/v1/jobs/{job}/progress",
        "log of bests": f"{log}best",
    }


def add_job(db: Database, target: str, trials: int) -> int:
    """Store a job that ended, with so many of the target's records as its trials; its number."""
    with db.write() as session:
        job = JobRow(
            target_key=target,
            threads=1,
            clock="wall",
            strategy="random",
            seed=0,
            budget_trials=trials,
            state=JobState.DONE.value,
        )
        session.add(job)
        session.flush()
        found = session.execute(
            select(RecordRow.id, RecordRow.workload_key)
            .where(RecordRow.target_key == target)
            .order_by(RecordRow.workload_key, RecordRow.id)
            .limit(trials)
        ).all()
        counts = Counter(record.workload_key for record in found)
        tasks = {
            key: TaskRow(job_id=job.id, workload_key=key, weight=1, trials=count)
            for key, count in counts.items()
        }
        session.add_all(tasks.values())
        session.flush()
        numbers = dict.fromkeys(tasks, 0)
        rows = []
        for id_, key in found:
            place = {"job_id": job.id, "task_id": tasks[key].id, "record_id": id_}
            recommended = numbers[key] < RECOMMENDED
            rows.append(place | {"number": numbers[key], "reused": False, "recommended": recommended})
            if numbers[key] == 0:
                tasks[key].recommended_id = id_
            numbers[key] += 1
        random.Random(0).shuffle(rows)  # tasks take turns
        session.execute(TrialRow.__table__.insert(), rows)  # type: ignore[attr-defined]  # a Table
        session.flush()
        choose_anew(session, [task.id for task in tasks.values()])
        return job.id


def measure(client: TestClient, paths: dict[str, str], times: int) -> dict[str, float]:
    """The median milliseconds of processor time that each takes, client included; raises on a bad answer."""
    found = {}
    for name, path in paths.items():
        spent = []
        for _ in range(times + 1):
            start = time.process_time()
            answer = client.get(path)
            spent.append(1e3 * (time.process_time() - start))
            if answer.status_code != 200:
                raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:300]}")
        found[name] = statistics.median(spent[1:])  # the first prepares statements and texts
    return found


def main() -> None:
    """Fill a database, ask, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--trials", type=int, default=50_000, help="of the job that is asked for")
    parser.add_argument("--database-url", help="an empty database; without one, SQLite in a temporary folder")
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = arguments.database_url or f"sqlite:///{Path(folder) / 'bench.sqlite3'}"
        db = Database(url)
        db.upgrade()
        keys = fill(db, arguments.records)
        job = add_job(db, CATALOGUE[_ENOUGH].key, arguments.trials)
        db.close()
        workload = next(workload for workload, target in keys if target == CATALOGUE[_ENOUGH].key)
        settings = Settings(
            home=Path(folder) / "home", database_url=url, boards="host", allowed_hosts=("testserver",)
        )
        with Nursery() as nursery, TestClient(create_app(settings, nursery=nursery)) as client:
            paths = questions(workload, _ENOUGH, job)
            figures: dict[str, Any] = {
                "records": len(keys),
                "cpu_ms": measure(client, paths, arguments.times),
            }
    for name, spent in figures["cpu_ms"].items():
        print(f"{name:32}{spent:8.1f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
