"""Following a job live in a terminal, or line by line where there is none."""

from __future__ import annotations

import time
from contextlib import nullcontext

from rich.console import Console
from rich.live import Live

from tilefleet import render
from tilefleet.client import Client
from tilefleet.job import Job

_REDRAW_S = 0.5
_LINE_S = 5.0


def watch(client: Client, job_id: int, console: Console) -> Job:
    """Show the job's progress on ``console`` until it ends; the job as it then is."""
    live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
    pause_s = _REDRAW_S if live else _LINE_S
    shown_at = -pause_s
    with live or nullcontext():
        for event in client.events(job_id):
            now = time.monotonic()
            if event.name == "end":
                break
            if now - shown_at < pause_s:
                continue
            shown_at = now
            job = client.job(job_id)
            if live:
                rows = max(4, console.size.height - 8)
                live.update(render.progress(job, client.tasks(job_id), rows))
            else:
                console.print(render.plain_progress(job), soft_wrap=True)
    return client.job(job_id)


def report(client: Client, job: Job, console: Console) -> None:
    """What a finished job reached; why it is not done says the error that the command then ends with."""
    console.print(render.task_table(client.tasks(job.id), rows=1000, clock=job.clock))
    console.print(
        f"job {job.id} {job.state} after {render.duration(job.elapsed_s)}: "
        f"{render.times(job)}; {render.summary(job)}",
        soft_wrap=True,
        highlight=False,
    )
    if job.message and job.state == "done":
        console.print(job.message, soft_wrap=True)
