"""How long the best-config query takes with so many records in SQLite.

``python -m bench.best_config --records 1000000 --json FILE``
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from sqlalchemy import event, text

from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Gemm
from server.db.database import Database
from server.db.tables import RecordRow, this_minute
from server.records import repository
from tuner.log.record import Record

CONFIGS = 1000
"""Records of one workload on one target: a long search."""
MINUTES = 30 * 24 * 60
"""The time in which all were measured: a month."""
_BATCH = 20_000


def fill(db: Database, records: int, seed: int = 0) -> list[tuple[str, str]]:
    """Store so many records, ``CONFIGS`` a (workload, target); returns the (workload, target) keys."""
    rng = random.Random(seed)
    targets = list(CATALOGUE.values())
    searches = [
        (Gemm(m=1 + at, n=8, k=8), targets[at % len(targets)]) for at in range(max(1, records // CONFIGS))
    ]
    with db.write() as session:
        repository.add_targets(session, targets)
        repository.add_workloads(session, (workload for workload, _ in searches))
    sample = repository.columns(
        Record(searches[0][0], targets[0], Config.of("bench", point=0), 1, cost_s=1.0, repeats_s=(1.0,) * 5)
    )
    rows: list[dict[str, Any]] = []
    for at in range(records):
        workload, target = searches[at % len(searches)]
        cost = rng.uniform(1e-4, 1e-2)
        config = {"kernel": "bench", "point": at}
        document = {**sample["document"], "config": config, "cost_s": cost}
        keys = {"workload_key": workload.key, "target_key": target.key, "config_key": f"{at:016x}"}
        measured = {"ranking_s": cost, "rate": workload.flops / cost, "document": document}
        measured["minute"] = this_minute() - MINUTES * (records - at) // records
        rows.append({**sample, **keys, **measured})
        if len(rows) == _BATCH or at == records - 1:
            with db.write() as session:
                session.execute(RecordRow.__table__.insert(), rows)  # type: ignore[attr-defined]  # a Table
            rows.clear()
    return [(workload.key, target.key) for workload, target in searches]


def measure(db: Database, keys: list[tuple[str, str]], queries: int, seed: int = 1) -> dict[str, Any]:
    """Milliseconds of the product's own query for random (workload, target), and its plan."""
    rng = random.Random(seed)
    times = []
    for _ in range(queries):
        workload, target = rng.choice(keys)
        start = time.perf_counter()
        with db.read() as session:
            found = repository.best(session, workload, target, "wall", 1)
        times.append((time.perf_counter() - start) * 1e3)
        if found is None:
            raise RuntimeError(f"no best record of workload {workload} on target {target}")
    times.sort()
    return {
        "queries": queries,
        "median_ms": statistics.median(times),
        "p99_ms": times[int(0.99 * (len(times) - 1))],
        "max_ms": times[-1],
        "plan": _plan(db, *keys[0]),
    }


def _plan(db: Database, workload: str, target: str) -> list[str]:
    """What SQLite says it does for the query."""
    seen: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        seen.append((statement, parameters))

    event.listen(db.engine, "before_cursor_execute", note)
    with db.read() as session:
        repository.best(session, workload, target, "wall", 1)
    event.remove(db.engine, "before_cursor_execute", note)
    statement, parameters = next(each for each in seen if "records" in each[0])
    with db.engine.connect() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        return [str(row[-1]) for row in rows]


def main() -> None:
    """Fill a database, ask it, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--json", type=Path, help="write the figures there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        db = Database(f"sqlite:///{Path(folder) / 'bench.sqlite3'}")
        db.upgrade()
        start = time.perf_counter()
        keys = fill(db, arguments.records)
        fill_s = time.perf_counter() - start
        with db.read() as session:
            stored = session.execute(text("select count(*) from records")).scalar_one()
        figures = {"records": stored, "fill_s": fill_s, **measure(db, keys, arguments.queries)}
        db.close()
    print(json.dumps(figures, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
