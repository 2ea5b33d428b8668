"""``submit``, ``watch``, ``jobs``, ``models``, ``rename``, ``label``, ``delete``, ``cancel``, ``resume``."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from compiler.intake.shapes import given_of
from kernels.numerics import Numerics
from server.jobs.order import Order
from tilefleet import render
from tilefleet.commands.common import JobId, Json, Url, connect, console, print_json, show, working
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
from tilefleet.errors import Incomplete, ServerUnreachable, TilefleetError
from tuner.states import JobState

if TYPE_CHECKING:
    from server.jobs.schemas import Job
    from tilefleet.client import Client


def submit(
    model: ModelFile,
    target: TargetName = "host",
    trials: Annotated[int | None, typer.Option(help="Stop after so many trials.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help="analysis, exhaustive, random, annealing, evolution, model, bandit, or a package's."
        ),
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
    name: Annotated[str, typer.Option(help="What to call the job.")] = "",
    label: Annotated[
        list[str] | None, typer.Option("--label", help="A word to find it again by. Repeatable.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the job until it ends.")] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Tune a model: upload it and start a job. Without a budget, 60 trials a distinct layer."""
    shapes = given_of(read_sets(shape))
    with connect(url) as client:
        with working(f"{model.name}: being sent and read"):
            uploaded = client.upload_for(model, shapes, read_values(value), data or ()).hash
        job = client.submit(
            model=uploaded,
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
            name=name,
            labels=label or (),
            submitter=_user(),
        )
        if watch:
            _follow(client, job.id, as_json)
        else:
            follow = f"job {job.id}; follow it with: tilefleet watch {job.id}"
            show(job, as_json, f"{follow}\n{render.first_look(job)}")


def watch(job: JobId, as_json: Json = False, url: Url = None) -> None:
    """Follow a job until it ends. With --json, its events, one a line."""
    with connect(url) as client:
        _follow(client, job, as_json)


def jobs(
    search: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD", help="Only jobs with these in name, model, target or labels."),
    ] = None,
    state: Annotated[
        list[JobState] | None, typer.Option("--state", help="Only jobs in this state. Repeatable.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Only jobs for this target.")] = None,
    model: Annotated[str | None, typer.Option(help="Only jobs of the model of this name or hash.")] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="Only jobs with this label. Repeatable.")
    ] = None,
    sort: Annotated[
        Order, typer.Option(help="By what; the newest, the last or the longest comes first.")
    ] = Order.ID,
    up: Annotated[bool, typer.Option("--up", help="The other way round.")] = False,
    most: Annotated[int | None, typer.Option("--limit", min=1, help="The first so many.")] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the jobs, the newest first."""
    with connect(url) as client:
        wanted = client.jobs(
            states=[each.value for each in state or ()],
            target=target,
            model=model,
            labels=label or (),
            search=" ".join(search) if search else None,
            sort=sort.value,
            order="up" if up else "down",
        )
        found = list(islice(wanted, most))
    show(found, as_json, render.jobs(found))


def rename(
    job: JobId,
    name: Annotated[str, typer.Argument(metavar="NAME", help='Its new name; "" takes it away.')],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Give a job a name."""
    with connect(url) as client:
        _print_job(client.change_job(job, name=name), as_json)


def label(
    job: JobId,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD", help="Its labels, all.")] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Put labels on a job, in the place of those that it has; without a word, take all away."""
    with connect(url) as client:
        _print_job(client.change_job(job, labels=words or ()), as_json)


def delete(
    jobs: Annotated[list[int], typer.Argument(metavar="JOB", help="Numbers of the jobs.")],
    url: Url = None,
) -> None:
    """Delete jobs that have ended; what they measured stays."""
    with connect(url) as client:
        for job in jobs:
            client.delete_job(job)
            typer.echo(f"job {job} is deleted; its records stay")


def models(
    search: Annotated[
        str | None, typer.Option(help="Only models with these words in the name, or whose hash begins so.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the uploaded models, the newest first."""
    words = (search or "").casefold().split()
    with connect(url) as client:
        found = [
            model
            for model in client.models()
            if all(word in model.name.casefold() or model.hash.startswith(word) for word in words)
        ]
    show(found, as_json, render.models(found))


def cancel(job: JobId, as_json: Json = False, url: Url = None) -> None:
    """Stop a job; what it measured stays."""
    with connect(url) as client:
        _print_job(client.cancel(job), as_json)


def resume(
    job: Annotated[int | None, typer.Argument(metavar="JOB", help="The job's number.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All jobs that were interrupted, or as the other options say.")
    ] = False,
    state: Annotated[
        list[JobState] | None, typer.Option("--state", help="With --all: those that ended so. Repeatable.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="With --all: only jobs for this target.")] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="With --all: only jobs with this label. Repeatable.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds from now on, in place of what is left of the job's budget.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Trials from now on, in place of what is left of the job's budget.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Go on with a job that ended, or with many; no trial is repeated."""
    more = seconds is not None or trials is not None
    if (job is None) != every or (job is not None and (state or target or label)) or (every and more):
        raise TilefleetError(
            "say the number of one job, perhaps with --seconds or --trials, or --all; --state, --target and "
            "--label go with --all"
        )
    with connect(url) as client:
        if job is not None:
            _print_job(client.resume(job, seconds=seconds, trials=trials), as_json)
            return
        states = [each.value for each in state or [JobState.INTERRUPTED]]
        number = client.resume_all(state=states, target=target, label=label or [])
    if as_json:
        typer.echo(json.dumps({"resumed": number}))
    else:
        typer.echo(f"{number} job{'' if number == 1 else 's'} {'waits' if number == 1 else 'wait'} again")


def _follow(client: Client, job_id: int, as_json: bool) -> None:
    """Show the job until it ends; anything but ``done`` is an error, and ``incomplete`` one of its own."""
    from tilefleet import watching

    try:
        if as_json:
            for event in client.events(job_id):
                typer.echo(event.model_dump_json())
            job = client.job(job_id)
        else:
            job = watching.watch(client, job_id, console())
            watching.report(client, job, console())
    except ServerUnreachable as gone:
        raise TilefleetError(f"{gone}; once it runs again: tilefleet watch {job_id}") from None
    except KeyboardInterrupt:
        typer.echo(f"the job goes on; tilefleet watch {job_id} or tilefleet cancel {job_id}", err=True)
        raise typer.Exit(130) from None
    if job.state != "done":
        error = Incomplete if job.state == "incomplete" else TilefleetError
        raise error(f"job {job.id} {job.state}" + (f": {job.message}" if job.message else ""))


def _user() -> str:
    """The name by which this machine knows its user; empty where it knows none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run as a number
        return ""


def _print_job(job: Job, as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        console().print(render.jobs([job]))
