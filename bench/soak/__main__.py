"""The whole product under faults of every kind: nothing lost, nothing twice, nothing wrong, every job done.

python -m bench.soak --minutes 2 --seed 1 --json FILE
python -m bench.soak --sum FILE FILE

Two coordinators on one PostgreSQL and Redis, a Dask scheduler, a worker that builds, a worker with four
boards (this machine, an agent that dials in through a proxy, a board that may lie, a simulated one), all real
processes. One fault follows the other, each after the next trial has shown that the one before is over. A
fault's ``seconds`` are from its end (a killed process: from its death) to the next trial that is stored of
what it struck. SIGTERM ends it early, with the account of what was done until then; a second one at once.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import psutil
import psycopg

from bench.soak.accounts import account
from bench.soak.faults import KINDS, Kind
from bench.soak.lab import Lab, lab
from bench.soak.work import LOOK_S, Work
from bench.soak.world import wait_for

STUCK_S = 300
"""No fault may keep a job from its next trial for so long."""
PAUSE_S = 2.0


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2.0, help="after that no more faults begin")
    parser.add_argument("--faults", type=int, help="no more than so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", help="only those whose names hold one of these words, comma-separated")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--sum", nargs="+", type=Path, help="no soak: add up what --json has written")
    arguments = parser.parse_args()
    if arguments.sum:
        _show(_sum([json.loads(path.read_text()) for path in arguments.sum]))
        return
    words = arguments.kinds.split(",") if arguments.kinds else [""]
    kinds = [kind for kind in KINDS if any(word in kind.name for word in words)]
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1) if ending.is_set() else ending.set())
    with lab() as made:
        kinds = [kind for kind in kinds if kind.needs not in made.without]
        report = soak(made, kinds, arguments.minutes, arguments.faults or 10**9, arguments.seed, ending)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    _show(report)
    bad = [
        problem for what in ("stuck", "lost", "duplicated", "wrong", "not_done") for problem in report[what]
    ]
    if bad:
        raise SystemExit("\n".join(["soak:", *bad[:20]]))


def soak(
    made: Lab, kinds: list[Kind], minutes: float, most: int, seed: int, ending: threading.Event
) -> dict[str, Any]:
    """The figures of so many minutes or faults, or of those until ``ending`` was set.

    ``stuck`` are those after which something stood still.
    """
    dice, work = random.Random(seed), Work(made, seed)
    faults: list[dict[str, Any]] = []
    stuck: list[str] = []
    work.start()
    try:
        wait_for(
            lambda: {each.target for each in list(work.seen.values())} == set(made.boards.values()), STUCK_S
        )
        begun = work.begun = time.monotonic()
        plan: list[Kind] = []
        while time.monotonic() - begun < minutes * 60 and len(faults) < most and not ending.is_set():
            if not plan:  # each kind as often as its weight, in any order
                plan = [kind for kind in kinds for _ in range(kind.weight)]
                dice.shuffle(plan)
            try:
                fault = _one(made, work, plan.pop(), dice)
            except AssertionError as error:
                stuck.append(f"after {time.monotonic() - begun:.0f} s: {error}")
                print(stuck[-1], flush=True)
                continue
            if fault:
                faults.append(fault)
                at, what = time.monotonic() - begun, f"{fault['kind']} {fault['detail']}"
                print(f"{at:6.0f} s  {what}: {fault['seconds']:.1f} s", flush=True)
            ending.wait(dice.uniform(0, PAUSE_S))
        took = time.monotonic() - begun
    finally:
        work.stop()
    work.join(2 * STUCK_S)
    return {
        "seed": seed,
        "minutes": took / 60,
        "faults": faults,
        "stuck": stuck,
        "parked": made.parked,
        "left_out": made.without,
        **account(made, work),
    }


def _one(made: Lab, work: Work, kind: Kind, dice: random.Random) -> dict[str, Any] | None:
    """One fault until it is over, or None when it had no victim."""
    begun = time.monotonic()
    try:
        struck = kind.strike(made, dice)
    except (LookupError, OSError, psutil.Error, psycopg.Error):  # the victim is gone, or somebody away
        return None
    over = time.monotonic()

    def next_trial() -> float:
        for id_, at in list(work.arrived.items()):
            trial = work.seen[id_]
            mine = trial.job in struck.jobs if struck.jobs else trial.board in struck.boards
            if at > over + LOOK_S and mine:
                return at
        return over if struck.jobs and struck.jobs <= work.ended else 0.0

    at = wait_for(next_trial, STUCK_S, why=lambda: f"{kind.name} {struck}: no trial after it")
    return {"kind": kind.name, "detail": struck.detail, "lasted_s": over - begun, "seconds": at - over}


def _sum(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Several runs as one."""
    lists = ("faults", "stuck", "parked", "lost", "duplicated", "wrong", "not_done", "failed")
    errors: Counter[str] = Counter()
    for report in reports:
        errors.update(report["errors"])
    return {
        **{key: [each for report in reports for each in report.get(key, ())] for key in lists},
        **{key: sum(report[key] for report in reports) for key in ("minutes", "jobs", "trials", "told")},
        "errors": dict(errors),
        "left_out": {what: why for report in reports for what, why in report["left_out"].items()},
    }


def _show(report: dict[str, Any]) -> None:
    """A table by kind of fault, and the account."""
    times: dict[str, list[float]] = defaultdict(list)
    for fault in report["faults"]:
        times[fault["kind"]].append(fault["seconds"])
    print("| fault | times | mean s to the next trial | worst s |\n| --- | --- | --- | --- |")
    times = dict(sorted(times.items()))
    times["all"] = [second for seconds in times.values() for second in seconds] or [0.0]
    for kind, seconds in times.items():
        print(f"| {kind} | {len(seconds)} | {mean(seconds):.1f} | {max(seconds):.1f} |")
    print(
        f"{len(report['faults'])} faults in {report['minutes']:.0f} min: {report['jobs']} jobs, "
        f"{len(report['not_done'])} not done; {report['trials']} trials, {len(report['lost'])} lost, "
        f"{len(report['duplicated'])} duplicated, {len(report['wrong'])} wrong; errors {report['errors']}; "
        f"{len(report['stuck'])} times something stood still; "
        f"{len(report['parked'])} times an operator had to return a board; "
        f"left out: {report['left_out'] or 'nothing'}"
    )


if __name__ == "__main__":
    main()
