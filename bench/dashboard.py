"""How fast the dashboard's pages are, and what many watchers cost tuning.

``python -m bench.dashboard --trials 10000 --watchers 200 --json FILE``
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import timing
from bench.service import service

if TYPE_CHECKING:
    from server.db.database import Database

TASKS = 20
MODEL = "squeezenet"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard", description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000, help="trials of the job that is opened")
    parser.add_argument("--loads", type=int, default=9, help="how often each page is opened")
    parser.add_argument("--watchers", type=int, default=200, help="event streams beside a job; 0 for none")
    parser.add_argument("--turns", type=int, default=3, help="jobs with and jobs without watchers")
    parser.add_argument("--job-trials", type=int, default=120, help="trials of each of those jobs")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    if shutil.which("chromium") is None:
        parser.error("chromium is not installed")
    report: dict[str, Any] = {"pages": pages(arguments.trials, arguments.loads)}
    if arguments.watchers:
        report["watchers"] = watched(arguments.watchers, arguments.turns, arguments.job_trials)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def pages(trials: int, loads: int) -> dict[str, Any]:
    """Seconds until a page shows what it is for, each time in a browser that knows nothing yet."""
    from playwright.sync_api import sync_playwright

    from server.db.database import Database

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        url = f"sqlite:///{folder}/bench.sqlite3"
        db = Database(url)
        db.upgrade()
        job = fill(db, trials)
        db.close()
        with service(TILEFLEET_DATABASE_URL=url) as client, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
            shown = (("first page", "/", 0), (f"job of {trials} trials", f"/jobs/{job}", 2))
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
            browser.close()
    return found


def fill(db: Database, trials: int) -> int:
    """Store a job that ended after so many trials of ``TASKS`` tasks; its id."""
    import random

    from kernels.space import Config
    from kernels.target import CATALOGUE
    from kernels.workload import Gemm
    from server.db.tables import JobRow, RecordRow, TaskRow, TrialRow
    from server.records import repository
    from tuner.record import Record

    rng, target = random.Random(0), CATALOGUE["x86-avx2"]
    workloads = [Gemm(m=8 + at, n=64, k=64) for at in range(TASKS)]
    common = {"target_key": target.key, "threads": 1, "clock": "wall"}
    with db.write() as session:
        repository.add_targets(session, [target])
        repository.add_workloads(session, workloads)
        job = JobRow(**common, workload_key=workloads[0].key, strategy="model", seed=0, state="done")
        session.add(job)
        session.flush()
        tasks = [
            TaskRow(job_id=job.id, workload_key=each.key, weight=1, state="done", trials=trials // TASKS)
            for each in workloads
        ]
        session.add_all(tasks)
        session.flush()
        for at in range(trials // TASKS * TASKS):
            workload, cost = workloads[at % TASKS], rng.lognormvariate(-8, 1)
            config = Config.of("bench", point=at, block=f"{rng.randrange(8)}x{rng.randrange(4)}")
            record = RecordRow(**repository.columns(Record(workload, target, config, 1, cost_s=cost)))
            session.add(record)
            session.flush()
            trial = {"task_id": tasks[at % TASKS].id, "number": at // TASKS, "reused": False}
            session.add(TrialRow(job_id=job.id, record_id=record.id, **trial))
        return job.id


def watched(watchers: int, turns: int, trials: int) -> dict[str, Any]:
    """Trials a second of the same job without and with so many event streams open, in turns."""
    runs: dict[str, list[Run]] = {"alone": [], "watched": []}
    for turn in range(turns):
        # Now one, now the other first: a machine that gets busier is nobody's fault.
        for kind in ("alone", "watched")[:: 1 if turn % 2 == 0 else -1]:
            run = _run(trials, watchers if kind == "watched" else 0)
            runs[kind].append(run)
            print(
                f"{kind}: {trials / run.seconds:.2f} trials/s, "
                f"coordinator {run.cpu_s / run.seconds:.1%} of a core",
                flush=True,
            )
    speed, low, high = timing.ratio(*([run.seconds for run in runs[kind]] for kind in ("alone", "watched")))
    cpu = {kind: statistics.median(run.cpu_s / run.seconds for run in found) for kind, found in runs.items()}
    print(f"{watchers} watchers: {speed:.3f} of the speed without ({low:.3f} to {high:.3f})")
    print(f"coordinator: {cpu['alone']:.1%} of a core without, {cpu['watched']:.1%} with them")
    seconds = {kind: [asdict(run) for run in found] for kind, found in runs.items()}
    return {"watchers": watchers, "runs": seconds, "speed": speed, "p10": low, "p90": high, "cores": cpu}


@dataclass(frozen=True)
class Run:
    """How long a job took, and the coordinator's processor time meanwhile."""

    seconds: float
    cpu_s: float


def _run(trials: int, watchers: int) -> Run:
    """One job of a service that knows nothing yet."""
    import psutil

    from bench.models import MAKERS

    with tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as folder, service() as client:
        (coordinator,) = psutil.Process().children()
        path = Path(folder) / f"{MODEL}.onnx"
        path.write_bytes(MAKERS[MODEL](0).SerializeToString())
        model = client.upload(path)
        job = client.submit(model=model.hash, target="host", trials=trials)
        url = f"{client.url}/api/v1/jobs/{job.id}/events"
        command = [sys.executable, "-m", "bench.watchers", url, str(watchers)]
        crowd = subprocess.Popen(command, stdout=subprocess.PIPE, text=True) if watchers else None
        before = sum(coordinator.cpu_times()[:2])
        while client.job(job.id).state in ("queued", "running"):
            time.sleep(0.5)
        cpu_s = sum(coordinator.cpu_times()[:2]) - before
        if crowd is not None:
            answer, _ = crowd.communicate(timeout=60)
            if int(answer or 0) < watchers:
                raise SystemExit(f"bench.dashboard: only {answer or 0} of {watchers} streams saw the end")
        ended = client.job(job.id)
    if ended.trials < trials:
        raise SystemExit(f"bench.dashboard: the job ended as {ended.state} after {ended.trials} trials")
    return Run(float(ended.elapsed_s or 0), cpu_s)


if __name__ == "__main__":
    main()
