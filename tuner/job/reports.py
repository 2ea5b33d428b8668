"""The events a job publishes (``docs/api.md``), its estimate of the whole model, and how it came out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tuner.job.budget import Allowance
from tuner.job.estimate import sums_of
from tuner.job.tally import Tally
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec, Trial
from tuner.states import JobState, Phase, TaskState
from worker.outcome import ErrorKind

Publish = Callable[[str, dict[str, Any]], None]
"""Takes an event's name and data. Called on the event loop: it must not block."""


def estimated_ms(searches: Iterable[TaskSearch]) -> float | None:
    """Milliseconds of the whole model by the best of each task; what has no time is as predicted, scaled by
    what the others took. None while nothing is known."""
    weighs = [search for search in searches if search.task.weight]
    sums = sums_of((search.task.weight, search.curve.best_s, search.task.predicted_s) for search in weighs)
    if sums.layers_s is None:
        return None
    return 1e3 * sums.layers_s * (1 + sums.share_of(weighs[0].job.others_s))


def early(searches: Iterable[TaskSearch], promises: bool = True) -> str:
    """Why it ended early; nothing where each config there is was tried. Without ``promises`` the search ended
    since no more gain was to be expected."""
    if not promises:
        return "it ended before its budget: less than 1 % of the model was to be expected of what was left"
    flat = sum(search.state is TaskState.PLATEAU for search in searches)
    layers = "one layer" if flat == 1 else f"{flat} layers"
    return f"it ended before its budget: the last trials of {layers} gained nothing" if flat else ""


def share_of(search: TaskSearch) -> dict[str, Any]:
    """What the scheduler goes by when it gives out the budget, for one task.

    ``gain_ms`` is what the whole model is expected to gain by one more trial, None while nothing of the
    task has run: such a task comes first. After ``patience`` trials without gain, ``flat`` so far, it gets
    no more.
    """
    curve = search.curve
    known = math.isfinite(curve.best_s)
    return {
        "task": search.task.id,
        "in_flight": curve.in_flight,
        "open": curve.open,
        "gain_ms": curve.gain * 1e3 if known else None,
        "step": curve.expected_step if known else None,
        "flat": curve.flat,
        "patience": curve.patience,
    }


def progress_event(
    tally: Tally, allowance: Allowance, searches: Sequence[TaskSearch], phase: Phase
) -> dict[str, Any]:
    """Data of the event ``progress``."""
    return {
        "phase": phase.value,
        "trials": tally.trials,
        "failed": tally.failed,
        "trials_per_s": allowance.rate,
        "eta_s": allowance.eta(tally.trials, phase),
        "estimated_ms": estimated_ms(searches),
        "elapsed_s": allowance.elapsed,
        "shares": [share_of(search) for search in searches],
    }


def trial_event(trial: Trial) -> dict[str, Any]:
    """Data of the event ``trial``."""
    record = trial.record
    return {
        "task": trial.task_id,
        "number": trial.number,
        "workload": record.workload.key,
        "config": record.config.to_json(),
        "cost_s": record.ranking_s,
        "disturbed": record.disturbed,
        "gflops": record.gflops,
        "error": None if record.error is None else record.error.value,
        "reused": trial.reused,
    }


def best_event(search: TaskSearch, searches: Iterable[TaskSearch]) -> dict[str, Any]:
    """Data of the event ``best``: a task has a new best, or its best was measured again."""
    best = search.best
    if best is None:
        raise ValueError(f"task {search.task.id} has no best config to report")
    return {
        "task": search.task.id,
        "workload": search.task.workload.key,
        "cost_s": best.ranking_s,
        "disturbed": best.disturbed,
        "gflops": best.gflops,
        "config": best.config.to_json(),
        "layouts": str(best.layouts),
        "estimated_ms": estimated_ms(searches),
    }


def deadline_note(job: JobSpec) -> str:
    """What to say of a job that its deadline ended."""
    return "its deadline ended it" + (
        "" if job.model is None else ", so the model was not built and measured"
    )


def verdict(searches: Sequence[TaskSearch], overdue: bool, delivered: bool = False) -> tuple[JobState, str]:
    """How a job came out that ran to its end, or until it was ``overdue``, and what is missing.

    Where a model was ``delivered``, a task without a trial, or of which all trials were withdrawn, has the
    untuned config: nothing is missing.
    """
    # A chain without any is no loss: its parts are there.
    without = [search for search in searches if search.best is None and search.task.weight]
    untried = [search for search in without if delivered and not search.records]
    gone = [search for search in without if delivered and search.records and _all_withdrawn(search)]
    if without and len(untried) + len(gone) == len(without):
        tried = gone or len(searches) > len(without)
        why = {"had no trial in the budget": untried, "have no record left that was not withdrawn": gone}
        counts = (f"{len(some)} of {len(searches)} tasks {what}" for what, some in why.items() if some)
        return JobState.DONE, f"{' and '.join(counts)} and have the untuned config" if tried else ""
    if not without:
        return JobState.DONE, ""
    errors = Counter(str(record.error) for search in without for record in search.records.values())
    found = ", ".join(f"{count} {kind}" for kind, count in errors.most_common())
    ended = "its deadline came" if overdue else "the budget ended"
    found = found or f"{ended} before their first trial"
    names = ", ".join(str(search.task.workload) for search in without[:3])
    names += ", ..." if len(without) > 3 else ""
    message = f"{len(without)} of {len(searches)} tasks have no config that ran ({found}): {names}"
    return JobState.INCOMPLETE if len(without) < len(searches) else JobState.FAILED, message


def _all_withdrawn(search: TaskSearch) -> bool:
    return all(record.error is ErrorKind.WITHDRAWN for record in search.records.values())
