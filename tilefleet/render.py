"""How resources look in a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from server.boards.schemas import Board, BoardEvent, FleetReport
    from server.jobs.built import JobVerdict
    from server.jobs.schemas import Job, Task
    from server.models.schemas import Model
    from server.records.schemas import Record

_STYLES = {
    "running": "cyan",
    "active": "cyan",
    "measuring": "cyan",
    "done": "green",
    "idle": "green",
    "good": "green",
    "unknown": "yellow",
    "draining": "yellow",
    "maintenance": "yellow",
    "bad": "red",
    "failed": "red",
    "offline": "red",
    "incomplete": "yellow",
    "interrupted": "yellow",
    "cancelled": "yellow",
    "stopped": "yellow",
}

_PHASES = {
    "remeasuring": "measures the best configs again",
    "comparing": "compares the best configs",
    "building": "builds and measures the model",
}
"""What a job does after its search; its figures do not tell."""


def table(*columns: str, left: int = 1) -> Table:
    """An empty table whose first ``left`` columns hold text and the others figures."""
    result = Table(box=None, pad_edge=False, header_style="dim")
    for number, column in enumerate(columns):
        result.add_column(column, justify="left" if number < left else "right", no_wrap=number >= left)
    return result


def number(value: float | None, digits: int = 1, unit: str = "") -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None else f"{value:,.{digits}f}{unit}"


def ms(value: float | None, unit: str = " ms") -> str:
    """Milliseconds of a whole model: two decimals, or three digits where there are more zeros."""
    return number(value, 2, unit) if value is None or value >= 1 else f"{milliseconds(value / 1e3)}{unit}"


def milliseconds(seconds: float | None) -> str:
    """Seconds as ms with three significant digits."""
    if seconds is None:
        return "-"
    ms = seconds * 1e3
    digits = 2 - math.floor(math.log10(ms)) if ms > 0 else 0
    return f"{ms:.{min(max(digits, 0), 6)}f}"


def rate_unit(units: Iterable[str]) -> str:
    """The unit of rates, given what their workloads count: with integers among them GOP/s."""
    return "GFLOP/s" if set(units) <= {"FLOP"} else "GOP/s"


def mark(clock: str, disturbed: bool = False) -> str:
    """What follows a time that no real clock has measured, or that others disturbed."""
    if disturbed:
        return " (disturbed)"
    return "" if clock == "wall" else " (simulated)"


def percent(share: float | None) -> str:
    """A share as whole per cent."""
    return "-" if share is None else f"{share:.0%}"


def duration(seconds: float | None) -> str:
    """Seconds as m:ss or h:mm:ss."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def state(value: str) -> Text:
    """A state in its colour."""
    return Text(value, style=_STYLES.get(value, ""))


def counts(errors: dict[str, int]) -> str:
    """Error kinds with how often each occurred."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items())) or "-"


def jobs(items: Iterable[Job]) -> Table:
    """One line a job."""
    result = table(
        "job",
        "model",
        "target",
        "state",
        "trials",
        "failed",
        "estimate ms",
        "built ms",
        "gain",
        "elapsed",
        left=4,
    )
    for job in items:
        name = Text(job.model_name or "(one workload)")
        if job.name:
            name = Text.assemble((job.name, "bold"), f" {name}")
        name.append(f" [{', '.join(job.labels)}]" if job.labels else "", style="dim")
        estimate = ms(job.estimated_ms, "") + mark(job.clock)
        raced = job.verdict.delivered_ms if job.verdict else None
        built = raced or (job.built.measured_ms if job.built else None)
        measured = ms(built, "") + (mark(job.clock) if built else "")
        gained = number(job.verdict.gain if job.verdict else None, 2)
        figures = (f"{job.trials}", f"{job.failed}", estimate, measured, gained, duration(job.elapsed_s))
        how = Text.assemble(state(job.state), f", {_wait(job)}" if job.waiting else "")
        result.add_row(f"{job.id}", name, job.target, how, *figures)
    return result


def models(items: Iterable[Model]) -> Table:
    """One line a model."""
    result = table("model", "hash", "uploaded", "operators", "tunable", "GFLOP or GOP", "MB", left=3)
    for model in items:
        figures = (f"{model.operators}", f"{model.tunable}", number(model.flops / 1e9, 2))
        result.add_row(
            model.name, model.hash[:12], _when(model.created), *figures, number(model.size / 1e6, 2)
        )
    return result


def boards(items: Iterable[Board]) -> Table:
    """One line a board."""
    result = table(
        "board", "target", "clock", "state", "health", "for", "trials", "timing", "reference ms", left=6
    )
    for board in items:
        how = Text.assemble(state(board.health), f": {board.reason}" if board.reason else "")
        figures = (f"{board.trials}", percent(board.utilisation), milliseconds(board.reference_s))
        clock = board.clock.partition(":")[0]
        result.add_row(board.id, board.target, clock, state(board.activity), how, holder(board), *figures)
    return result


def holder(board: Board) -> str:
    """What a board is leased for."""
    if board.lease is None:
        return "-"
    return "health check" if board.lease.job is None else f"job {board.lease.job}"


def report(found: FleetReport) -> RenderableType:
    """What the fleet did, as a table and a line."""
    listed = table("board", "target", "available", "in use", "timing", "trials", "faults", left=2)
    for each in found.boards:
        there = "-" if each.availability is None else f"{each.availability:.1%}"
        figures = (percent(each.leased), percent(each.timing), str(each.trials), str(each.faults))
        listed.add_row(each.id, each.target, there, *figures)
    lost = f"{found.trials} trials since {found.since:%Y-%m-%d}, {found.lost} lost to the lab"
    return Group(listed, f"{lost} ({found.lost_share:.2%})")


def board(value: Board) -> Table:
    """All of a board, a line each."""
    lease = value.lease
    rows: dict[str, RenderableType] = {
        "board": value.id,
        "target": f"{value.target}: {', '.join([*value.instruction_sets, _count(value.threads, 'thread')])}",
        "clock": value.clock,
        "tags": ", ".join(value.tags) or "-",
        "state": state(value.activity),
        "health": Text.assemble(state(value.health), f": {value.reason}" if value.reason else ""),
        "lease": f"{holder(value)}, token {lease.token}, of {lease.holder}" if lease else "-",
        "timing": f"{percent(value.utilisation)} of 5 minutes, {percent(value.utilisation_total)} in all",
        "trials": f"{value.trials} in {_count(value.leases, 'lease')}, {_count(value.faults, 'fault')}",
        "busy": f"{duration(value.busy_s)}, of that {duration(value.timed_s)} timing",
        "reference": f"{milliseconds(value.reference_s)} ms{mark(value.clock)}, "
        f"{number(value.drift, 2)} times the best",
        "temperature": number(value.temperature_c, 1, " C"),
        "frequency": number(value.frequency_mhz, 0, " MHz"),
        "checked": _when(value.checked),
        "last seen": _when(value.last_seen),
    }
    result = Table.grid(padding=(0, 2))
    for name, shown in rows.items():
        result.add_row(Text(name, style="dim"), shown)
    return result


def board_history(items: Iterable[BoardEvent], clock: str) -> Table:
    """One line an event; ``clock`` is the board's."""
    result = table("when", "what", "details", left=3)
    for event in items:
        what = event.kind.replace("_", " ")
        result.add_row(_when(event.at), what, Text(", ".join(_details(event.detail, clock))))
    return result


def _details(detail: Mapping[str, object], clock: str) -> Iterator[str]:
    """What is known of an event, in words where a name and its value would be hard to read."""
    known = {name: value for name, value in detail.items() if value not in (None, "", False, 0)}
    if "health" in known:
        before, after = known.pop("before", None), known.pop("health")
        yield f"{after}" if before in (None, after) else f"{before} -> {after}"
    if isinstance(seconds := known.pop("seconds", None), float):
        yield f"{milliseconds(seconds)} ms{mark(clock)}"
    for name in ("problem", "reason"):
        if name in known:
            yield f"{known.pop(name)}"
    if "artifact" in known:
        yield f"code {str(known.pop('artifact'))[:12]}"
    if known.pop("draining", False):
        yield "draining"
    if "failures" in known:
        yield f"{known.pop('failures')} failed in a row"
    yield from (f"{name} {value}" for name, value in known.items())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _when(time: datetime | None) -> str:
    return "-" if time is None else f"{time.astimezone():%Y-%m-%d %H:%M:%S}"


def records(items: Sequence[Record]) -> Table:
    """One line a record."""
    unit = rate_unit(record.unit for record in items)
    result = table("workload", "config", "clock", "threads", "ms", unit, left=3)
    for record in items:
        cost = record.verified_s if record.verified_s is not None else record.cost_s
        figures = (
            f"{record.threads}",
            milliseconds(cost) + mark(record.clock, record.disturbed),
            number(record.gflops),
        )
        result.add_row(record.text, config(record.config), record.clock, *figures)
    return result


def config(value: Mapping[str, object] | None) -> str:
    """A config on one line: kernel(knob=value, ...)."""
    if not value:
        return "-"
    knobs = ", ".join(f"{name}={choice}" for name, choice in value.items() if name != "kernel")
    return f"{value.get('kernel')}({knobs})"


def progress(job: Job, tasks: Sequence[Task], rows: int) -> RenderableType:
    """A job while it runs: how far, how fast, and its ``rows`` most expensive tasks."""
    bar = Table.grid(padding=(0, 1))
    bar.add_row(state(job.state), ProgressBar(total=1.0, completed=share_used(job), width=30), _used(job))
    headline = Text.assemble(
        (ms(job.estimated_ms), "bold"),
        f"{mark(job.clock)}  all layers, estimated",
    )
    return Group(bar, headline, Text(summary(job), style="dim"), Text(), task_table(tasks, rows, job.clock))


def task_table(tasks: Sequence[Task], rows: int, clock: str) -> Table:
    """The ``rows`` tasks that cost most, the most expensive first, and how many more, by the job's clock."""
    best = f"best ms{mark(clock)}"
    unit = rate_unit(task.unit for task in tasks)
    result = table("workload", "times", "trials", "untuned ms", best, unit, "of peak", "state")
    ordered = sorted(tasks, key=lambda task: -(task.weight * (task.best_s or float("inf"))))
    for task in ordered[:rows]:
        result.add_row(
            task.text,
            f"{task.weight:g}",
            f"{task.trials}" + (f" ({task.failed} failed)" if task.failed else ""),
            milliseconds(task.recommended_s),
            milliseconds(task.best_s) + mark("wall", task.best_disturbed),
            number(task.gflops),
            percent(task.share_of_peak),
            state(task.state),
        )
    if len(ordered) > rows:
        result.add_row(f"and {len(ordered) - rows} cheaper ones", *[""] * 7)
    return result


def times(job: Job) -> str:
    """What the whole model takes and what tuning gained, as measured; before that what is estimated."""
    found = job.verdict
    if job.workload is not None and found is not None:
        return f"{ms(found.delivered_ms)}{mark(job.clock)} measured: {gain(found)}"
    if job.built is None or job.built.measured_ms is None:
        return f"{ms(job.estimated_ms)}{mark(job.clock)} estimated"
    if found is None:
        spread = f"spread {percent(job.built.spread)}"
        return f"{ms(job.built.measured_ms)}{mark(job.clock)} built and measured ({spread})"
    return f"{ms(found.delivered_ms)}{mark(job.clock)} built and measured: {gain(found)}"


def first_look(job: Job) -> str:
    """How long a job takes until its first result, as far as that is known."""
    if job.first_look_s is None:
        return (
            "how long a first result takes is not known: no model was built for such a board since the start"
        )
    return f"a first result takes about {job.first_look_s:.0f} s"


def gain(found: JobVerdict) -> str:
    """What tuning gained, and the model's own runtime beside it."""
    if not found.peer_ms:
        return found.text
    return f"{found.text}; {number(found.peer_ms / found.delivered_ms)} times as fast as {found.peer}"


def summary(job: Job) -> str:
    """A job's counters on one line."""
    parts = [f"{job.trials} trials", f"{number(job.trials_per_s, 2)}/s", f"{job.failed} failed"]
    if job.errors:
        parts.append(f"({counts(job.errors)})")
    if job.reused:
        parts.append(f"{job.reused} known before")
    if job.phase in _PHASES:
        parts.append(_PHASES[job.phase])
    if job.eta_s is not None and not job.ended:
        parts.append(f"{duration(job.eta_s)} to go")
    if job.waiting:
        parts.append(_wait(job))
    return "  ".join(parts)


def _wait(job: Job) -> str:
    """Why a job waits, and at which place."""
    if job.waiting is None:
        return ""
    if job.state == "queued":
        return f"position {job.waiting.position} of the queue; {job.waiting.reason}"
    return f"waits as number {job.waiting.position}: {job.waiting.reason}"


def plain_progress(job: Job) -> str:
    """The same on one line, for where there is no terminal."""
    estimate = ms(job.estimated_ms) + mark(job.clock)
    return f"{duration(job.elapsed_s):>6}  {job.state}  estimate {estimate}  {summary(job)}"


def share_used(job: Job) -> float:
    """What is used of the budget, the larger share where there are two; 1 once it is spent."""
    shares = [0.0]
    if job.budget.trials:
        shares.append(job.trials / job.budget.trials)
    if job.budget.seconds:
        shares.append(job.elapsed_s / job.budget.seconds)
    return min(1.0, max(shares))


def _used(job: Job) -> str:
    """What is used of the budget, in words."""
    used = []
    if job.budget.trials:
        used.append(f"{job.trials} of {job.budget.trials} trials")
    if job.budget.seconds:
        used.append(f"{duration(job.elapsed_s)} of {duration(job.budget.seconds)}")
    return ", ".join(used)
