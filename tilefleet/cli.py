"""The command ``tilefleet``: puts the subcommands together, and turns errors into one line."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tilefleet.commands import (
    agent,
    boards,
    ci,
    compare,
    explain,
    export,
    jobs,
    local,
    replay,
    results,
    run,
    service,
)
from tilefleet.errors import Incomplete, TilefleetError


class _OneLineErrors(TyperGroup):
    """Whatever was expected to go wrong ends as one line on standard error and exit code 1, or 3."""

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader, like head, has had enough: click ends silently
        except (TilefleetError, OSError) as error:
            typer.echo(f"tilefleet: {error}", err=True)
            raise typer.Exit(3 if isinstance(error, Incomplete) else 1) from None


app = typer.Typer(
    cls=_OneLineErrors,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Tune the convolutions and matrix products of a model for the boards it will run on.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tilefleet {version('tilefleet')}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options of the command itself."""


for command in (
    service.up,
    service.stop,
    jobs.submit,
    jobs.watch,
    jobs.jobs,
    jobs.models,
    jobs.cancel,
    jobs.resume,
    results.best,
    results.log,
    results.load,
    export.export,
    replay.replay,
    results.forget,
    results.baselines,
    explain.explain,
    local.check,
    local.build,
    run.run,
    ci.ci,
    compare.compare,
    service.doctor,
):
    app.command()(command)
app.command("open")(service.open_dashboard)
app.add_typer(agent.app, name="agent")
app.add_typer(boards.app, name="boards")
# All that follows the benchmark's name is the benchmark's, --help too.
app.command(
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    }
)(service.bench)


def main() -> None:
    """The entry point of the installed script."""
    app()
