"""Which share of the trials is lost to the lab itself when nothing is done to it.

python -m bench.lost_share --trials 2000 --boards host,rpi4-sim --json FILE

A service of its own tunes one small layer after the other on each board at the same time; then its report
says how many trials failed by no doing of their candidates.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.service import service
from bench.soak.work import layers
from bench.soak.world import wait_for
from kernels.workload.base import to_json
from tilefleet import Client

A_JOB = 40
"""Trials of a job at the most."""


def main() -> None:
    """Run the bench and print its figures; exit code 1 when a job did not end well."""
    parser = argparse.ArgumentParser(prog="python -m bench.lost_share", description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000, help="of each board")
    parser.add_argument("--boards", default="host,rpi4-sim")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    with service(TILEFLEET_BOARDS=arguments.boards, TILEFLEET_MIN_TIME_MS="10") as client:
        targets = sorted({board.target for board in wait_for(client.boards)})
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(_tune, client.url, target, arguments.trials) for target in targets]
            problems = [problem for run in runs for problem in run.result()]
        report = {**_errors(client, targets), "problems": problems}
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report))
    if problems:
        raise SystemExit(1)


def _tune(url: str, target: str, trials: int) -> list[str]:
    """Jobs until there are so many trials; what was wrong with those that are not done."""
    problems, number = [], itertools.count(1)
    with Client(url) as client:
        made = 0
        for layer in layers(target):
            if made >= trials:
                break
            workload, seed = to_json(layer), next(number)
            job = client.submit(
                target=target, workload=workload, trials=min(A_JOB, trials), strategy="random", seed=seed
            )
            for _ in client.events(job.id):
                pass
            job = client.job(job.id)
            made += job.trials
            print(f"{target}: {made} trials, {dict(job.errors)}", flush=True)
            if job.state != "done":
                problems.append(f"job {job.id} on {target}: {job.state}: {job.message}")
    return problems


def _errors(client: Client, targets: list[str]) -> dict[str, Any]:
    report, errors = client.report(1), Counter[str]()
    for job in client.jobs():
        errors.update(job.errors)
    share = {"trials": report.trials, "lost": report.lost, "lost_share": report.lost_share}
    return {"targets": targets, **share, "errors": dict(errors)}


if __name__ == "__main__":
    main()
