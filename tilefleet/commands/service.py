"""``up``, ``stop``, ``open``, ``doctor``, ``bench``: the service itself and the machine it runs on."""

from __future__ import annotations

import subprocess
import sys
import webbrowser
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from tilefleet.commands.common import Json, Url, connect, console, print_json, working
from tilefleet.detached import UP
from tilefleet.detached import start as start_detached
from tilefleet.errors import TilefleetError
from tilefleet.home import DEFAULT_PORT, home
from worker.fleet.drivers.sim_models import SIM_MODELS


def benches() -> list[str]:
    """Names of all benchmarks: the modules of ``bench`` that are commands."""
    folder = Path(next(iter(import_module("bench").__path__)))
    return sorted(
        [file.stem for file in folder.glob("*.py") if '__name__ == "__main__"' in file.read_text()]
        + [file.parent.name for file in folder.glob("*/__main__.py")]
    )


def up(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is any.")] = DEFAULT_PORT,
    boards: Annotated[
        str | None,
        typer.Option(
            help=f"Comma-separated: host, {', '.join(SIM_MODELS)}.",
            show_default="host",
        ),
    ] = None,
    fleet: Annotated[
        Path | None, typer.Option(help="A fleet file that says what boards there are, instead of --boards.")
    ] = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Come back when it answers; `tilefleet stop` ends it."),
    ] = False,
) -> None:
    """Start the service: coordinator, engine and boards, in one process tree."""
    if boards is not None and fleet is not None:
        raise typer.BadParameter("give either --boards or --fleet")
    if detach:
        chosen = {"--host": host, "--port": port, "--boards": boards, "--fleet": fleet}
        words = [f"{name}={value}" for name, value in chosen.items() if value is not None]
        start_detached(words, home(), lambda line: typer.echo(line, err=not line.startswith(UP)))
        return
    from tilefleet.phases import Told

    with Told() as told:
        # Here, because the server brings TVM along, which no other command should wait for.
        from tilefleet.up import up as run

        def started(url: str) -> None:
            told.ready()
            typer.echo(f"{UP}{url}  (API: {url}/docs, stop: Ctrl-C)")

        run(host, port, boards, fleet, started, lambda text: typer.echo(text, err=True))


def stop() -> None:
    """Stop the service of this state folder; its jobs go on with the next start."""
    from tilefleet.state_lock import stop as end

    with working("waiting for the service to end"):
        process = end(home())
    typer.echo(f"stopped process {process}")


def open_dashboard(url: Url = None) -> None:
    """Show the dashboard in a browser, and print its address."""
    with connect(url) as client:
        client.health()
        typer.echo(client.url)
        webbrowser.open(client.url)


def doctor(as_json: Json = False) -> None:
    """Check the tool chain, and say how to mend what is wrong."""
    from tilefleet.doctor import examine

    ok = True
    findings = []
    with working("looking") as say:
        for finding in examine(lambda name: say(f"looking at: {name}")):
            ok &= finding.ok
            findings.append(asdict(finding))
            if not as_json:
                console().print(finding.line(), soft_wrap=True)
    if as_json:
        print_json(findings)
    if not ok:
        raise typer.Exit(1)


def mend(as_json: Json = False) -> None:
    """Put right what somebody wrote into the database by hand and cannot be: make a backup before."""
    from server.db.database import Database, DatabaseError
    from server.mending import mend as put_right
    from tilefleet.configuration import read_settings

    db = Database(read_settings().database)
    try:
        with working("reading every row"), db.refusing():
            db.upgrade()
            done = put_right(db)
    except DatabaseError as error:
        raise TilefleetError(str(error)) from None
    finally:
        db.close()
    if as_json:
        print_json(done)
        return
    for what, count in sorted(done.items()):
        typer.echo(f"{count} {what}")
    if not done:
        typer.echo("nothing was wrong")


def bench(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Without one it lists them; NAME --help says what it takes.")
    ] = "",
) -> None:
    """Run a benchmark against the peers: python -m bench.NAME with the arguments that follow."""
    there_are = ", ".join(benches())
    if not name:
        typer.echo(there_are)
        return
    if name not in there_are.split(", "):
        raise typer.BadParameter(f"{name!r} is no benchmark; there are {there_are}", param_hint="NAME")
    command = [sys.executable, "-m", f"bench.{name}", *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
