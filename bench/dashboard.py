"""How fast the dashboard's pages are: ``python -m bench.dashboard --trials 10000 --json FILE``"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.dashboard_graph import deep, moves
from bench.service import service

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from kernels.workload.base import Workload
    from server.db.database import Database
    from tilefleet.client import Client

TASKS = 20
LAYERS = 500
"""Of a large model, each with a few trials."""
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard", description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000, help="trials of the job that is opened")
    parser.add_argument("--loads", type=int, default=9, help="how often each page is opened")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    if shutil.which("chromium") is None:
        parser.error("chromium is not installed")
    report = {"pages": pages(arguments.trials, arguments.loads)}
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def pages(trials: int, loads: int) -> dict[str, Any]:
    """Seconds until a page shows what it is for, each time in a browser that knows nothing yet."""
    from playwright.sync_api import sync_playwright

    from kernels.workload.base import Gemm
    from server.db.database import Database

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        url = f"sqlite:///{folder}/bench.sqlite3"
        db = Database(url)
        db.upgrade()
        workloads = [Gemm(m=8 + at, n=64, k=64) for at in range(LAYERS)]
        job, large = fill(db, trials, workloads[:TASKS]), fill(db, 4 * LAYERS, workloads)
        with service(TILEFLEET_DATABASE_URL=url) as client, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
            shown = (
                ("first page", "/", 0),
                ("jobs", "/jobs", 0),
                (f"job of {trials} trials", f"/jobs/{job}", 2),
                (f"job of {LAYERS} layers", f"/jobs/{large}", 2),
                ("that job beside the other", f"/compare?jobs={large},{job}", 1),
            )
            for name, path, canvases in shown:
                seconds = []
                for _ in range(loads):
                    page = browser.new_page(base_url=client.url)
                    page.goto(path, wait_until="commit")
                    page.locator("table").first.wait_for()
                    if canvases:
                        page.locator("canvas").nth(canvases - 1).wait_for()
                    seconds.append(page.evaluate("performance.now()") / 1e3)
                    page.close()
                median = statistics.median(seconds)
                found[name] = {"median_s": median, "seconds": seconds}
                print(f"{name}: {median:.2f} s ({min(seconds):.2f} to {max(seconds):.2f})", flush=True)
            found |= graph(browser, client, db, loads)
            browser.close()
        db.close()
    return found


def graph(browser: Browser, client: Client, db: Database, loads: int) -> dict[str, Any]:
    """Seconds until the page of a model of ``LAYERS`` layers shows its graph, and how that moves."""
    import onnx

    from kernels.workload.base import from_json

    with tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        path = Path(folder) / "deep.onnx"
        onnx.save(deep(LAYERS), path)
        model = client.upload(path)
    workloads = [from_json(each.workload) for each in client.workloads(model.hash).workloads]
    job = fill(db, 4 * len(workloads), workloads, model.hash)
    seconds = []
    for _ in range(loads):
        page = browser.new_page(base_url=client.url, viewport={"width": 1280, "height": 900})
        page.goto(f"/jobs/{job}", wait_until="commit")
        page.locator("svg [data-key]").nth(LAYERS - 1).wait_for(state="attached")
        seconds.append(page.evaluate("performance.now()") / 1e3)
        if len(seconds) == loads:
            page.locator("canvas").nth(1).wait_for()
            page.wait_for_timeout(1000)
            moved = moves(page)
        page.close()
    name, median = f"graph of {len(workloads)} layers", statistics.median(seconds)
    print(f"{name}: {median:.2f} s ({min(seconds):.2f} to {max(seconds):.2f})", flush=True)
    for how, frames in moved.items():
        print(
            f"{name}, {how}: a frame {frames['median_ms']:.1f} ms, of twenty the longest "
            f"{frames['worst_twentieth_ms']:.1f} ms, of all {frames['longest_ms']:.1f} ms",
            flush=True,
        )
    return {name: {"median_s": median, "seconds": seconds, **moved}}


def fill(db: Database, trials: int, workloads: Sequence[Workload], model: str | None = None) -> int:
    """Store a job that ended after so many trials of these workloads, of a model that is stored; its id."""
    import random

    from kernels.space import Config
    from kernels.target import CATALOGUE
    from server.db.tables import JobRow, RecordRow, TaskRow, TrialRow
    from server.records import repository
    from tuner.log.record import Record

    rng, target = random.Random(0), CATALOGUE["x86-avx2"]
    layers = len(workloads)
    common = {"target_key": target.key, "threads": 1, "clock": "wall"}
    with db.write() as session:
        repository.add_targets(session, [target])
        repository.add_workloads(session, workloads)
        what = {"workload_key": workloads[0].key} if model is None else {"model_hash": model}
        job = JobRow(**common, **what, strategy="model", seed=0, state="done")
        session.add(job)
        session.flush()
        tasks = [
            TaskRow(job_id=job.id, workload_key=each.key, weight=1, state="done", trials=trials // layers)
            for each in workloads
        ]
        session.add_all(tasks)
        session.flush()
        lowest: dict[int, float] = {}
        for at in range(trials // layers * layers):
            workload, cost = workloads[at % layers], rng.lognormvariate(-8, 1)
            config = Config.of("bench", of=layers, point=at, block=f"{rng.randrange(8)}x{rng.randrange(4)}")
            record = RecordRow(**repository.columns(Record(workload, target, config, 1, cost_s=cost)))
            session.add(record)
            session.flush()
            task = tasks[at % layers]
            trial = {"task_id": task.id, "number": at // layers, "reused": False}
            session.add(TrialRow(job_id=job.id, record_id=record.id, **trial))
            if cost < lowest.setdefault(task.id, cost + 1):
                lowest[task.id], task.best_id = cost, record.id
        return job.id


if __name__ == "__main__":
    main()
