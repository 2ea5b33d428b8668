"""``submit``, ``watch``, ``jobs``, ``cancel``, ``resume``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from kernels.numerics import Numerics
from server.jobs.schemas import Job
from tilefleet import render
from tilefleet.client import Client
from tilefleet.commands.common import JobId, Json, Url, connect, console, print_json, show
from tilefleet.commands.options import (
    DataOption,
    ModelFile,
    NumericsOption,
    TargetName,
    Threads,
    ValueOption,
    read_values,
)
from tilefleet.commands.shape_options import ShapeOption, read_sets
from tilefleet.errors import Incomplete, TilefleetError
from tilefleet.watching import report
from tilefleet.watching import watch as watch_job
from tuner.intake.shapes import given_of


def submit(
    model: ModelFile,
    target: TargetName = "host",
    trials: Annotated[int | None, typer.Option(help="Stop after so many trials.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    strategy: Annotated[
        str, typer.Option(help="analysis, random, evolution, model, or module:Class.")
    ] = "model",
    threads: Threads = 1,
    shape: ShapeOption = None,
    value: ValueOption = None,
    data: DataOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    numerics: NumericsOption = Numerics.EXACT_INTEGERS,
    priority: Annotated[
        int, typer.Option(min=-100, max=100, help="Jobs of a higher one get boards first.")
    ] = 0,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Only boards with this tag. Repeatable.")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            min=0, help="End with what there is after so many minutes, also while no board is there."
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the job until it ends.")] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Tune a model: upload it and start a job. Without a budget, 60 trials a distinct layer."""
    shapes = given_of(read_sets(shape))
    with connect(url) as client:
        job = client.submit(
            model=client.upload_for(model, shapes, read_values(value), data or ()).hash,
            target=target,
            trials=trials,
            seconds=seconds,
            strategy=strategy,
            threads=threads,
            shapes=shapes,
            seed=seed,
            numerics=numerics,
            priority=priority,
            tags=tag or (),
            deadline=None if within is None else datetime.now(UTC) + timedelta(minutes=within),
        )
        if watch:
            _follow(client, job.id, as_json)
        else:
            show(job, as_json, f"job {job.id}; follow it with: tilefleet watch {job.id}")


def watch(job: JobId, as_json: Json = False, url: Url = None) -> None:
    """Follow a job until it ends. With --json, its events, one a line."""
    with connect(url) as client:
        _follow(client, job, as_json)


def jobs(as_json: Json = False, url: Url = None) -> None:
    """List the jobs."""
    with connect(url) as client:
        found = list(client.jobs())
    show(found, as_json, render.jobs(found))


def models(as_json: Json = False, url: Url = None) -> None:
    """List the uploaded models."""
    with connect(url) as client:
        found = list(client.models())
    show(found, as_json, render.models(found))


def cancel(job: JobId, as_json: Json = False, url: Url = None) -> None:
    """Stop a job; what it measured stays."""
    with connect(url) as client:
        _print_job(client.cancel(job), as_json)


def resume(job: JobId, as_json: Json = False, url: Url = None) -> None:
    """Go on with a job that ended; no trial is repeated."""
    with connect(url) as client:
        _print_job(client.resume(job), as_json)


def _follow(client: Client, job_id: int, as_json: bool) -> None:
    """Show the job until it ends; anything but ``done`` is an error, and ``incomplete`` one of its own."""
    try:
        if as_json:
            for event in client.events(job_id):
                typer.echo(event.model_dump_json())
            job = client.job(job_id)
        else:
            job = watch_job(client, job_id, console())
            report(client, job, console())
    except KeyboardInterrupt:
        typer.echo(f"the job goes on; tilefleet watch {job_id} or tilefleet cancel {job_id}", err=True)
        raise typer.Exit(130) from None
    if job.state != "done":
        error = Incomplete if job.state == "incomplete" else TilefleetError
        raise error(f"job {job.id} {job.state}" + (f": {job.message}" if job.message else ""))


def _print_job(job: Job, as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        console().print(render.jobs([job]))
