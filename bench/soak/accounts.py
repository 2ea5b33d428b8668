"""What must hold in the end, whatever was done meanwhile."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

from bench.soak.lab import Lab
from bench.soak.work import TRIALS, Stored, Work, stored

LEAST_S = 1e-7
"""No layer of a soak is computed faster by any machine."""


def account(lab: Lab, work: Work) -> dict[str, Any]:
    """Count what was lost, duplicated or wrong among all trials, and jobs that did not end well.

    ``lost`` are trials that were seen in the database or told of and are not there, or not as they were, and
    those that a job wants to have. ``duplicated`` are configs that a job stored twice, and boards with two
    leases at once. ``wrong`` are records of another target, clock or board, and times that cannot be.
    """
    now = stored(lab)
    jobs = lab.rows("select id, state, message from jobs order by id")
    clocks = dict(lab.rows("select id, clock from boards"))
    by_job: dict[int, list[Stored]] = defaultdict(list)
    for trial in now.values():
        by_job[trial.job].append(trial)
    lost = [
        f"trial {id_} of job {seen.job} was stored and is not"
        for id_, seen in work.seen.items()
        if id_ not in now
    ]
    lost += [
        f"record {seen.record} was another"
        for id_, seen in work.seen.items()
        if id_ in now and seen.error is None and _changed(seen, now[id_])
    ]
    numbered = {(trial.job, trial.number): trial for trial in now.values()}
    for key, config in work.told.items():
        if key not in numbered:
            lost.append(f"trial {key} was told and is not stored")
        elif json.dumps(numbered[key].document["config"], sort_keys=True) != config:
            lost.append(f"trial {key} was told with another config")
    for id_, _, _ in jobs:
        numbers = sorted(trial.number for trial in by_job[id_])
        # A number is left out where a result came after its lease had ended: that config is measured again.
        if len(numbers) != TRIALS:
            lost.append(f"job {id_} has the trials {numbers}")
    duplicated = [
        f"job {id_} has {config} {count} times"
        for id_, trials in by_job.items()
        for config, count in Counter(trial.config for trial in trials).items()
        if count > 1
    ]
    leases = lab.rows("select board, ended, token from leases order by board, token")
    duplicated += [
        f"board {one[0]} has lease {two[2]} and still {one[2]}"
        for one, two in pairwise(leases)
        if one[0] == two[0] and one[1] is None
    ]
    wrong = [problem for trial in now.values() if (problem := _why_wrong(trial, lab, clocks))]
    errors = Counter(trial.error for trial in now.values() if trial.error)
    return {
        "jobs": len(jobs),
        "trials": len(now),
        "told": len(work.told),
        "lost": lost,
        "duplicated": duplicated,
        "wrong": wrong,
        "not_done": [f"job {id_}: {state}: {message}" for id_, state, message in jobs if state != "done"],
        "errors": dict(errors),
        "failed": [
            f"{work.when(id_):.0f} s: job {trial.job}, board {trial.board}: {trial.error}:"
            f" {trial.document.get('message')}"
            for id_, trial in now.items()
            if trial.error
        ],
    }


def _changed(seen: Stored, now: Stored) -> bool:
    """Whether a trial is another than it was; a job's best are measured again, and their times change."""
    if now.document.get("remeasured", 0) > seen.document.get("remeasured", 0):
        now = replace(now, document=seen.document, ranking_s=seen.ranking_s)
    return now != seen


def _why_wrong(trial: Stored, lab: Lab, clocks: dict[str, str]) -> str:
    what = f"record {trial.record} of job {trial.job}"
    if trial.target != trial.job_target:
        return f"{what} is of target {trial.target}"
    if trial.error is not None:
        return ""
    if lab.boards.get(trial.board) != trial.target or clocks.get(trial.board) != trial.clock:
        return f"{what} is of board {trial.board} and clock {trial.clock}"
    seconds = trial.ranking_s
    if seconds is None or not math.isfinite(seconds) or not LEAST_S < seconds < 60:
        return f"{what} took {seconds} s"
    return ""
