"""How commands explain themselves: in groups, each with an example, and in words that are not Python's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from typer import BadParameter
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

_WORDS = {
    "int": "N",
    "int range": "N",
    "float": "NUMBER",
    "float range": "NUMBER",
    "str": "TEXT",
    "file": "FILE",
    "path": "PATH",
    "dir": "FOLDER",
    "datetime": "TIME",
}


def example(line: str) -> str:
    """The last line of a command's help: how it is written."""
    return f"Example: tilefleet {line}"


class Command(TyperCommand):
    """A command whose help names what an option takes in words of its users."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read the arguments; what is wrong with one is said in words."""
        with _in_words():
            return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """The words of the usage line."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Arguments and options."""
        _format_parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        """The example, on a line that can be copied."""
        _format_example(self, formatter)


class Group(TyperGroup):
    """A group of commands that lists each with the whole first sentence of its help."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read the arguments; what is wrong with one is said in words."""
        with _in_words():
            return super().parse_args(ctx, args)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Options, then the commands."""
        _format_parameters(self, ctx, formatter)
        for section, names in self.sections(ctx).items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(section):
                formatter.write_dl([(name, _sentence(command)) for name, command in commands])

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        """The example, on a line that can be copied."""
        _format_example(self, formatter)

    def sections(self, ctx: Context) -> dict[str, list[str]]:
        """Names of commands by heading."""
        return {"Commands": self.list_commands(ctx)}


@contextmanager
def _in_words() -> Iterator[None]:
    """Take from an error what pydantic, by which typer reads values, puts before it."""
    try:
        yield
    except BadParameter as error:
        error.message = error.message.removeprefix("Value error, ")
        raise


def _format_parameters(command: Any, ctx: Context, formatter: HelpFormatter) -> None:
    listed: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if isinstance(parameter, TyperOption) and parameter.metavar is None:
            parameter.metavar = _word(parameter.display_type(ctx))
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        if isinstance(parameter, TyperArgument):
            listed["Arguments"].append((parameter.display_name_raw, record[1].replace("  [required]", "")))
        else:
            listed["Options"].append(record)
    for heading, rows in listed.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


def _word(shown: str) -> str:
    """What an option takes, from what typer calls it: ``<list[str]>`` is TEXT."""
    kind = shown.strip("<>")
    if found := re.fullmatch(r"list\[(.*)\]", kind):
        kind = found[1]
    return _WORDS.get(kind, _WORDS["path"] if kind == "Path" else kind)


def _sentence(command: Any) -> str:
    """The first sentence of a command's help."""
    text = " ".join((command.help or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.) ", text, maxsplit=1)[0]


def _format_example(command: Any, formatter: HelpFormatter) -> None:
    if command.epilog:
        formatter.write_paragraph()
        formatter.write(f"{command.epilog}\n")
