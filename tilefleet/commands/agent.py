"""``agent build``: the program that serves a board."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

from tilefleet.commands.common import Json, show, working
from tilefleet.commands.help import Command, Group, example
from tilefleet.errors import TilefleetError
from tilefleet.home import home
from worker.fleet.drivers.dial_proof import DEFAULT_PORT, check_id

app = typer.Typer(
    cls=Group, no_args_is_help=True, rich_markup_mode=None, help="The agent that serves a board."
)


@app.callback()
def agent() -> None:
    """Keep `build` a command of its own, though there is no other."""


@app.command(cls=Command, epilog=example("agent build --target rpi4 --id desk-pi -o agent"))
def build(
    output: Annotated[Path, typer.Option("--output", "-o", dir_okay=False, help="The program.")],
    target: Annotated[
        str, typer.Option(help="A target, such as rpi4, or a triple, such as aarch64-linux-gnu.")
    ] = "host",
    id: Annotated[str, typer.Option(help="The board's name in the fleet.", show_default="the target")] = "",
    coordinator: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The gateway as the board sees it, or the tunnel's end.")
    ] = f"127.0.0.1:{DEFAULT_PORT}",
    as_json: Json = False,
) -> None:
    """Build the agent for a board, and say how to start it there. It is one static file without needs."""
    from worker.fleet.drivers.agent_build import AgentBuildError, build_agent

    name = id or target
    if problem := check_id(name):
        raise TilefleetError(problem)
    try:
        triple = _triple(target)
        with working(f"building the agent for {triple}, which takes about a minute the first time"):
            built = build_agent(triple, home() / "agents")
    except AgentBuildError as error:
        raise TilefleetError(str(error)) from None
    shutil.copy2(built, output)
    command = shlex.join(
        [f"./{output.name}", "--key", name, "--dial", coordinator, "--token-file", f"{name}.token"]
    )
    text = (
        f"{output} is the agent for {triple} ({output.stat().st_size // 1024} KB, static). Copy it and the "
        f"board's token, the same as the coordinator has, there, and start it:\n\n    {command}\n"
    )
    show({"agent": str(output), "triple": triple, "id": name, "command": command}, as_json, text)


def _triple(target: str) -> str:
    from kernels.target import CATALOGUE
    from worker.fleet.drivers.agent_build import agent_triple, host_triple

    if target == "host":
        return host_triple()
    if target in CATALOGUE:
        return agent_triple(CATALOGUE[target].triple)
    if "-" in target:
        return agent_triple(target)
    there_are = ", ".join(sorted(["host", *CATALOGUE]))
    raise TilefleetError(f"unknown target {target!r}; there are {there_are}, or give a triple")
