"""``tilefleet compare --board rpi4-sim``: runtimes and ours under the clock of a simulated board."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from tilefleet.comparing import (
    OURS,
    Comparison,
    Engine,
    Row,
    Wanted,
    defined,
    engines_of,
    error_against,
    missing_of,
)
from tilefleet.errors import TilefleetError
from tilefleet.home import home
from tuner.runtimes.guest import BOARDS, Guest, GuestError, fetch
from worker.children.nursery import Nursery
from worker.fleet.drivers.agent_build import AgentBuildError
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.simulated import why_no_emulator

AT_ONCE = 2
"""Emulators that run side by side: their clocks are not disturbed."""


def guest_for(board: str, may_fetch: bool, threads: int = 1) -> Guest:
    """The emulated Python of ``board``, for so many threads, fetched where that is allowed.

    Raises TilefleetError.
    """
    if board not in BOARDS:
        raise TilefleetError(
            f"there are wheels of other runtimes for {', '.join(BOARDS)} only, not for {board}"
        )
    if threads > (cores := SIM_MODELS[board].cores):
        raise TilefleetError(f"{board} has {cores} cores: --threads {threads} is too many")
    if problem := why_no_emulator(board):
        raise TilefleetError(problem)
    guest = Guest(home() / "guests" / "aarch64", home() / "boards", board)
    if not guest.there:
        if not may_fetch:
            raise TilefleetError(
                f"{board} needs an AArch64 Python with the runtimes' wheels, some 200 MB by apt-get and pip: "
                f"--fetch downloads it into {guest.root}"
            )
        try:
            fetch(guest.root)
        except GuestError as error:
            raise TilefleetError(str(error)) from None
    return guest


def compare_simulated(
    wanted: Wanted,
    guest: Guest,
    told: Callable[[str], object],
    only: Container[str] | None = None,
) -> Comparison:
    """Build for the board, and run each whole in the emulated Python; what TVM makes and ours as C libraries.

    Of runtimes and own builds ``only`` those, where names are given. Raises TilefleetError.
    """
    ours = version("tilefleet")
    own = [("TVM default", version("apache-tvm"), "default library", False)]
    own.append((f"{OURS}, untuned", ours, "library", False))
    if wanted.records:
        own.append((f"{OURS}, tuned", ours, "library", True))
    with tempfile.TemporaryDirectory(prefix="tilefleet-compare-") as name, Nursery() as nursery:
        folder = Path(name)
        model = {"model": str(wanted.model), "shapes": wanted.shapes}
        about = defined(nursery, model, folder, told)
        rows: list[Row] = []
        engines: list[Engine] = []
        there = {name: of for name, of in guest.versions().items() if only is None or name in only}
        own = [each for each in own if only is None or each[0] in only]
        for each in engines_of(nursery, wanted, model, about, folder, told, there, own, (guest.tools,)):
            (rows if isinstance(each, Row) else engines).append(each)  # type: ignore[arg-type]

        def ran(engine: Engine) -> Row:
            outputs = folder / f"{engine.name}.npz"
            try:
                took = guest.alone(engine.request(about, wanted.threads, outputs))
            except (GuestError, AgentBuildError) as reason:
                return replace(engine.row, why=str(reason).splitlines()[-1][:200])
            error, wrong = error_against(outputs, engine.outputs, about)
            return replace(
                engine.row,
                seconds=took["call"],
                start_s=took["start"],
                resident_bytes=took["resident_bytes"],
                error=error,
                why=wrong,
            )

        told(f"{len(engines)} runtimes under the emulator, a minute or two each")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            rows += pool.map(ran, engines)
    rows.sort(key=lambda row: (not row.right, row.seconds or float("inf")))
    return Comparison(tuple(rows), about["by"], about["why"], missing_of(there))
