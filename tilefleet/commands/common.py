"""What the subcommands share: options, the client, output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.segment import Segment

from tilefleet.visible import visible

if TYPE_CHECKING:
    from tilefleet.client import Client

Url = Annotated[
    str | None,
    typer.Option(
        envvar="TILEFLEET_URL", help="The server; by default the one started last here.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Say = Callable[[str], None]
"""Takes what is being done now."""
JobId = Annotated[int, typer.Argument(metavar="JOB", help="Number of the job.")]


def connect(url: str | None) -> Client:
    """A client of the server at ``url``, or of the default one."""
    from tilefleet.client import Client

    return Client(url)


_WIDE = 160
"""Columns where no terminal says how many there are."""


class VisibleConsole(Console):
    """A console whose texts cannot move its cursor or colour it."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            each if each.control else Segment(visible(each.text), each.style) for each in buffer
        )


def console() -> Console:
    """Standard output, made anew so that redirections made since are seen."""
    return VisibleConsole(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


@contextmanager
def working(what: str) -> Iterator[Say]:
    """Show ``what`` and a clock on standard error meanwhile, where that is a terminal.

    Every command that may take more than two seconds does. What is yielded changes the words.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    on_screen = sys.stdout.isatty()  # else it is none of the display's business
    with Progress(*columns, console=console, transient=True, redirect_stdout=on_screen) as bar:
        task = bar.add_task(escape(what), total=None)
        yield lambda text: bar.update(task, description=escape(text))


def show(value: Any, as_json: bool, rendered: RenderableType) -> None:
    """Print ``value`` as JSON or as ``rendered``."""
    if as_json:
        print_json(value)
    elif isinstance(rendered, str):
        typer.echo(rendered)
    else:
        console().print(rendered)


def print_json(value: Any) -> None:
    """Print resources, or anything JSON can hold, as indented JSON."""
    typer.echo(json.dumps(_plain(value), indent=2))


def _plain(value: Any) -> Any:
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
