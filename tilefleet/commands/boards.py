"""``boards``: who has them, how they are, and what operators do with them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tilefleet import render
from tilefleet.commands.common import Json, Url, connect, show
from tilefleet.commands.help import Command, Group, example
from worker.fleet.states import Health

if TYPE_CHECKING:
    from server.boards.schemas import Board

app = typer.Typer(cls=Group, rich_markup_mode=None, help="List the boards, or change one.")
BoardId = Annotated[str, typer.Argument(metavar="ID", help="Name of the board.")]
Reason = Annotated[str | None, typer.Option(help="Why, for the board's history.", show_default=False)]


@app.callback(invoke_without_command=True)
def boards(
    context: typer.Context,
    target: Annotated[str | None, typer.Option(help="Only boards of this target.")] = None,
    health: Annotated[
        list[Health] | None, typer.Option("--health", help="Only boards that are so. Repeatable.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Only boards with this tag. Repeatable: with all.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the boards, or change one."""
    if context.invoked_subcommand is None:
        with connect(url) as client:
            found = [
                board
                for board in client.boards()
                if target in (None, board.target)
                and (not health or board.health in health)
                and set(tag or ()) <= set(board.tags)
            ]
        show(found, as_json, render.boards(found))


@app.command("show", cls=Command, epilog=example("boards show desk-pi"))
def show_board(board: BoardId, as_json: Json = False, url: Url = None) -> None:
    """Show all that is known of a board."""
    with connect(url) as client:
        found = client.board(board)
    show(found, as_json, render.board(found))


@app.command(cls=Command, epilog=example("boards reload"))
def reload(as_json: Json = False, url: Url = None) -> None:
    """Read the fleet file and its tokens again: boards come, go and change without a stop."""
    with connect(url) as client:
        found = client.reload_fleet()
    if as_json:
        typer.echo(json.dumps(found))
        return
    told = [f"{what}: {', '.join(boards)}" for what, boards in found.items() if boards]
    typer.echo("; ".join(told) or "nothing has changed")


@app.command(cls=Command, epilog=example("boards report --days 30"))
def report(
    days: Annotated[int, typer.Option(min=1, max=366, help="How many days, today among them.")] = 7,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Show how available and how used the boards were, and what was lost to the lab."""
    with connect(url) as client:
        found = client.report(days)
    show(found, as_json, render.report(found))


@app.command(cls=Command, epilog=example("boards history desk-pi --limit 20"))
def history(
    board: BoardId,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many entries, the newest.")] = 50,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Show what happened to a board, the newest first."""
    with connect(url) as client:
        found = client.board_history(board, limit)
        clock = client.board(board).clock
    show(found, as_json, render.board_history(found, clock))


@app.command(cls=Command, epilog=example('boards drain desk-pi --reason "new kernel"'))
def drain(board: BoardId, reason: Reason = None, as_json: Json = False, url: Url = None) -> None:
    """Let the present batch end, then take the board out of service."""
    _change("drain", board, reason, as_json, url)


@app.command(cls=Command, epilog=example('boards park desk-pi --reason "no fan"'))
def park(
    board: BoardId,
    reason: Annotated[str, typer.Option(help="Why, for whoever looks at the board.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Take the board out of service at once; what runs there is measured elsewhere."""
    _change("park", board, reason, as_json, url)


@app.command("return", cls=Command, epilog=example("boards return desk-pi"))
def put_back(board: BoardId, reason: Reason = None, as_json: Json = False, url: Url = None) -> None:
    """Bring the board back into service, if it passes its health check."""
    _change("return", board, reason, as_json, url)


@app.command(cls=Command, epilog=example("boards retire desk-pi"))
def retire(board: BoardId, reason: Reason = None, as_json: Json = False, url: Url = None) -> None:
    """Take the board out of service for good."""
    _change("retire", board, reason, as_json, url)


@app.command(cls=Command, epilog=example("boards withdraw desk-pi"))
def withdraw(
    board: BoardId,
    since: Annotated[
        datetime | None, typer.Option(help="From when on (UTC); by default from its last good check.")
    ] = None,
    good_too: Annotated[
        bool,
        typer.Option(
            "--good-too", help="Also what it measured before its last good check; all without --since."
        ),
    ] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Take back what a board has measured since its last good health check, and has said of itself."""
    with connect(url) as client:
        found = client.withdraw(board, since, good_too)
    show(
        found,
        as_json,
        f"{found.records} records withdrawn, measured from {found.since:%Y-%m-%d %H:%M:%S} UTC on",
    )


def _change(action: str, board: str, reason: str | None, as_json: bool, url: str | None) -> None:
    with connect(url) as client:
        found: Board = client.change_board(board, action, reason)
    show(found, as_json, render.boards([found]))
