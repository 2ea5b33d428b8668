"""The command ``tilefleet``: its subcommands, and errors as one line.

What a subcommand needs is imported when it is called: one that only talks to a server waits for nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command, get_group

from tilefleet.commands.help import Command, Group, example
from tilefleet.errors import Incomplete, TilefleetError
from tilefleet.visible import guard_output, visible

if TYPE_CHECKING:
    from typer._click import Context


@dataclass(frozen=True)
class _Entry:
    """A subcommand: function ``name`` of module ``place`` of the folder ``commands``; ``of`` if that has
    another name."""

    section: str
    place: str
    example: str
    of: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


_SERVICE, _TUNE, _USE = "The service", "Tune a model", "Use the result"
_DATA, _BOARDS = "What was measured", "Boards and this machine"
# All that follows the benchmark's name is the benchmark's, --help too.
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
COMMANDS = {
    "up": _Entry(_SERVICE, "service", "up --boards host,rpi4-sim"),
    "stop": _Entry(_SERVICE, "service", "stop"),
    "open": _Entry(_SERVICE, "service", "open", "open_dashboard"),
    "doctor": _Entry(_SERVICE, "service", "doctor"),
    "mend": _Entry(_SERVICE, "service", "mend"),
    "submit": _Entry(_TUNE, "jobs", "submit model.onnx --target rpi4 --seconds 600 --watch"),
    "watch": _Entry(_TUNE, "jobs", "watch 1"),
    "jobs": _Entry(_TUNE, "jobs", "jobs --state done --target rpi4 squeezenet"),
    "models": _Entry(_TUNE, "jobs", "models"),
    "cancel": _Entry(_TUNE, "jobs", "cancel 1"),
    "resume": _Entry(_TUNE, "jobs", "resume 1"),
    "rename": _Entry(_TUNE, "jobs", 'rename 1 "before the new kernel"'),
    "label": _Entry(_TUNE, "jobs", "label 1 nightly pi"),
    "delete": _Entry(_TUNE, "jobs", "delete 1 2"),
    "check": _Entry(_USE, "local", "check model.onnx --log model.jsonl"),
    "build": _Entry(_USE, "local", "build model.onnx --log model.jsonl --as c -o model/"),
    "run": _Entry(_USE, "run", "run model.onnx --board rpi4-sim"),
    "compare": _Entry(_USE, "compare", "compare model.onnx --log model.jsonl"),
    "ci": _Entry(_USE, "ci", "ci model.onnx --target rpi4 --baseline rpi4.json"),
    "log": _Entry(_DATA, "results", "log 1 -o model.jsonl"),
    "load": _Entry(_DATA, "results", "load model.jsonl"),
    "export": _Entry(_DATA, "export", "export 1 --format csv -o trials.csv"),
    "best": _Entry(_DATA, "results", "best --target rpi4"),
    "explain": _Entry(_DATA, "explain", "explain 0123456789abcdef --target rpi4"),
    "baselines": _Entry(_DATA, "results", "baselines 1"),
    "replay": _Entry(_DATA, "replay", "replay trials.jsonl --strategy random --strategy model"),
    "forget": _Entry(_DATA, "results", "forget --imported"),
    "boards": _Entry(_BOARDS, "boards", "boards", "app"),
    "agent": _Entry(_BOARDS, "agent", "agent build --target rpi4 --id desk-pi -o agent", "app"),
    "calibrate": _Entry(_BOARDS, "calibrate", "calibrate --board rpi4-sim --output figures.toml"),
    "bench": _Entry(_BOARDS, "service", "bench model --help", settings=_PASSED_ON),
}


class _Tilefleet(Group):
    """Whatever was expected to go wrong ends as one line on standard error and exit code 1, or 3."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # made when asked for
        self._made: dict[str, Any] = {}

    def list_commands(self, ctx: Context) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def sections(self, ctx: Context) -> dict[str, list[str]]:
        """The table's sections."""
        found: dict[str, list[str]] = {}
        for name, entry in COMMANDS.items():
            found.setdefault(entry.section, []).append(name)
        return found

    def get_command(self, ctx: Context, cmd_name: str) -> Any:
        """Import it; None when there is no such command."""
        if cmd_name in COMMANDS and cmd_name not in self._made:
            self._made[cmd_name] = _make(cmd_name, COMMANDS[cmd_name])
        return self._made.get(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader, like head, has had enough: click ends silently
        except (TilefleetError, OSError) as error:
            typer.echo(f"tilefleet: {visible(str(error))}", err=True)
            raise typer.Exit(3 if isinstance(error, Incomplete) else 1) from None


def _make(name: str, entry: _Entry) -> Any:
    what = getattr(import_module(f"tilefleet.commands.{entry.place}"), entry.of or name)
    if isinstance(what, typer.Typer):
        made = get_group(what)
        made.epilog = example(entry.example)
        return made
    one = typer.Typer(add_completion=False, rich_markup_mode=None)
    one.command(name, cls=Command, epilog=example(entry.example), context_settings=entry.settings or None)(
        what
    )
    return get_command(one)


app = typer.Typer(
    cls=_Tilefleet,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Tune the convolutions and matrix products of a model for the boards it will run on.",
    epilog="tilefleet COMMAND --help explains a command. Exit codes: 0 done, 1 refused or failed, 2 not\n"
    "written as its help says, 3 incomplete or slower, 130 Ctrl-C (docs/operations.md).",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tilefleet {version('tilefleet')}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """The entry point of the installed script."""
    guard_output()
    app()
