"""What becomes of model files that others ship: fetched, built, compared, and timed beside other libraries.

python -m bench.corpus --json FILE
python -m bench.corpus --only magika --only 'mp_*' --budget-s 60
python -m bench.corpus --models FOLDER

bench/corpus.toml lists the files, and pip and npm fetch them. Each model runs in a process of its own.
"""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import journal, timing
from bench.corpus.entries import Entry, chosen, found, listed
from bench.corpus.fetch import CACHE, fetch
from bench.corpus.inputs import shapes_of
from bench.corpus.rows import EMPTY, Row, ended, line, summary, told
from tuner.runtimes.prepare import installed
from worker.children.nursery import ChildError, Nursery

SETTINGS = ("budget_s", "rounds", "seed")


def main() -> None:
    """Run the bench, print a line a model and the summary."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.corpus", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--models", type=Path, metavar="FOLDER", help="all .onnx and .tflite files in there instead"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="this one; * stands for anything"
    )
    parser.add_argument("--budget-s", type=float, default=0, help="seconds of tuning a model (default: none)")
    parser.add_argument("--rounds", type=int, default=9, help="turns that each library gets (default 9)")
    parser.add_argument(
        "--deadline-s", type=float, default=600, help="for one model without tuning (default 600)"
    )
    parser.add_argument("--memory-gb", type=float, default=8, help="what one model may take (default 8)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where fetched files are kept ({CACHE})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    arguments = parser.parse_args()
    timing.limit_threads(1)
    try:
        entries = found(arguments.models, listed()) if arguments.models else listed()
        report = run(chosen(entries, arguments.only), arguments)
    except ValueError as error:
        parser.error(str(error))
    print(told(report["summary"]))
    if report["summary"]["wrong"]:
        raise SystemExit(1)


def run(entries: Sequence[Entry], arguments: argparse.Namespace) -> dict[str, Any]:
    """The report, written after every model."""
    report: dict[str, Any] = {
        "bench": "corpus",
        "settings": {name: getattr(arguments, name) for name in SETTINGS},
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": f"{timing.processor()}, {os.cpu_count()} CPUs",
        "libraries": installed(),
        "rows": [],
    }
    print(
        f"beside {', '.join(f'{name} {version}' for name, version in report['libraries'].items())}",
        flush=True,
    )
    places = fetch(entries, arguments.cache)
    preload = ("tvm", "tuner.backend.apply", "bench.corpus.child")
    with Nursery(preload) as nursery, _tuner(arguments.budget_s) as tune:
        for entry in entries:
            path = places[entry.name]
            row: Row = {**entry.to_json(), **EMPTY}
            if isinstance(path, Path):
                row["bytes"] = path.stat().st_size
                try_one(nursery, entry, path, row, tune(path, entry, row), arguments)
            else:
                row["reason"] = str(path)
            report["rows"].append(row)
            print(line(row), flush=True)
            report["summary"] = summary(report["rows"])
            journal.save(arguments.json, report)
    return report


def try_one(
    nursery: Nursery, entry: Entry, path: Path, row: Row, log: list[str], arguments: argparse.Namespace
) -> None:
    """Fill ``row`` with what the child tells, and with how it died where it does."""
    payload: dict[str, Any] = {
        "path": str(path),
        "name": entry.name,
        "inputs": {name: asdict(each) for name, each in entry.inputs.items()},
        "log": log,
        "rounds": arguments.rounds,
        "seed": arguments.seed,
        "without": {},
    }
    while True:
        row["trying"] = ""
        try:
            nursery.call(
                "bench.corpus.child:try_model",
                payload,
                timeout_s=arguments.deadline_s,
                memory_bytes=int(arguments.memory_gb * 2**30),
                on_message=row.update,
            )
        except ChildError as error:
            if row["trying"]:
                # A library that dies of a model does not keep the others from being timed.
                payload["without"] |= {row["trying"]: str(error)[:150]}
                continue
            ended(row, str(error)[:300])
        return


@contextmanager
def _tuner(budget_s: float) -> Iterator[Any]:
    """A function of a file, its entry and its row: the log of a job of ``budget_s`` seconds, none for 0."""
    if not budget_s:
        yield lambda path, entry, row: []
        return
    from bench.service import run_job, service
    from tilefleet.errors import TilefleetError

    def tune(path: Path, entry: Entry, row: Row) -> list[str]:
        try:
            model = client.upload(path, entry.name, shapes_of(path, entry), entry.constants)
        except TilefleetError:
            return []  # refused; the child says why
        if not client.workloads(model.hash).workloads:
            return []
        try:
            job = run_job(client, model=model.hash, threads=1, seconds=budget_s)
        except SystemExit as error:
            row["reason"] = f"not tuned: {error}"
            return []
        return list(client.job_log(job.id, "best"))

    with service(TILEFLEET_MAX_MODEL_MB="2048") as client:
        yield tune


if __name__ == "__main__":
    main()
