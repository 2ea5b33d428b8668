"""``tilefleet ci``: models timed on a simulated board, and compared with what they took before."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compiler.intake.assemble import assembled
from kernels import target as targets
from kernels.numerics import Numerics
from kernels.target import CATALOGUE
from tilefleet.errors import TilefleetError
from tilefleet.one_board import StartedBoard, started_board
from tuner.backend.check import Check
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts
from tuner.performance.baseline import Baseline
from tuner.performance.changes import Changes, changes
from tuner.performance.timed import Timed
from worker.children.nursery import ChildError, ChildRaised
from worker.fleet.drivers.sim_models import SIM_MODELS

ENTRY = "tuner.performance.child:time_in_child"
_TIMEOUT_S = 20


@dataclass(frozen=True)
class Wanted:
    """Which models are timed, and how they are built. ``shapes`` and ``values`` are of their inputs."""

    models: Mapping[str, Path]
    board: str
    records: Sequence[Record]
    relayouts: Sequence[Relayouts]
    numerics: Numerics
    shapes: Mapping[str, Any] | None
    values: Mapping[str, Sequence[float]]
    data: Sequence[Path]


@dataclass(frozen=True)
class Report:
    """One model: its check, and what changed; None of a model that the baseline has not."""

    name: str
    check: Check
    timed: Timed
    changes: Changes | None


def board_of(target: str) -> str:
    """The simulated board of ``target``; TilefleetError where there is none."""
    found = [name for name, model in SIM_MODELS.items() if target in (name, model.target)]
    if not found:
        there_are = ", ".join(sorted({model.target for model in SIM_MODELS.values()}))
        raise TilefleetError(f"target {target!r} has no simulated board; these have: {there_are}")
    return found[0]


def run(
    wanted: Wanted, known: Baseline | None, allowed: float, update: bool, say: Callable[[str], None]
) -> tuple[list[Report], Baseline]:
    """Build and run the models, one after another, and compare them with ``known``; ``say`` is told which.

    Returns what is to be said of each, and the baseline with their times and the assembly of both. Raises
    TilefleetError for a model that is wrong or cannot be built, and for a baseline of another board, or of
    another clock unless it is to be made anew (``update``).
    """
    with started_board(wanted.board, None, CATALOGUE[SIM_MODELS[wanted.board].target]) as board:
        clock = board.driver.clock
        known = _fitting(known, wanted.board, clock, update)
        reports, assembly = [], dict(known.assembly)
        for number, (name, path) in enumerate(wanted.models.items(), 1):
            say(f"{name}: being built and run, {number} of {len(wanted.models)}")
            found = _timed(name, path, wanted, board, sorted(assembly))
            assembly |= found["assembly"]
            timed, before = Timed.from_json(found["timed"]), known.models.get(name)
            changed = changes(before, timed, allowed) if before else None
            reports.append(Report(name, Check(**found["check"]), timed, changed))
    models = {**known.models, **{each.name: each.timed for each in reports}}
    return reports, replace(known, made_by=made_by(wanted.board), models=models, assembly=assembly)


def _fitting(known: Baseline | None, board: str, clock: str, update: bool) -> Baseline:
    """What there is to compare with."""
    fresh = Baseline(board, clock, {})
    if known is None or (known.board, known.clock) == (board, clock):
        return known or fresh
    if known.board != board:
        raise TilefleetError(f"the baseline is of board {known.board}, not {board}: use another file")
    if update:
        return fresh
    raise TilefleetError(
        f"the baseline's times are of the clock {known.clock}, {board} now has {clock}, and times of "
        "different clocks are not compared: make it anew by --update, with all its models"
    )


def _timed(
    name: str, path: Path, wanted: Wanted, board: StartedBoard, known: Sequence[str]
) -> dict[str, Any]:
    try:
        with assembled(path, wanted.values, wanted.data) as whole:
            found: dict[str, Any] = board.call(
                ENTRY,
                {
                    "model": str(whole),
                    "shapes": wanted.shapes,
                    "target": targets.to_json(CATALOGUE[SIM_MODELS[wanted.board].target]),
                    "threads": 1,
                    "numerics": wanted.numerics.value,
                    "records": [record.to_json() for record in wanted.records],
                    "relayouts": [each.line() for each in wanted.relayouts],
                    "known": known,
                },
            )
    except ChildRaised as error:
        raise TilefleetError(f"{name}: {error.message}") from None
    except (ChildError, ValueError) as error:
        raise TilefleetError(f"{name}: {error}") from None
    if found["check"]["wrong"]:
        raise TilefleetError(f"{name}: the built model is wrong: {found['check']['wrong']}")
    return found


def made_by(board: str) -> dict[str, str]:
    """The versions of what code and times depend on beside this project."""
    emulator = SIM_MODELS[board].emulator
    said = subprocess.run(
        [shutil.which(emulator) or emulator, "--version"],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    ).stdout
    number = re.search(r"version ([\d.]+)", said)
    return {"apache-tvm": version("apache-tvm"), "qemu": number[1] if number else "?"}


def write_assembly(report: Report, texts: Mapping[str, str], folder: Path) -> list[list[str]]:
    """Write the assembly before and after of whatever changed; for each change the files that were."""
    written: list[list[str]] = []
    for number, change in enumerate(report.changes.each if report.changes else ()):
        written.append([])
        for which, part in (("before", change.before), ("after", change.after)):
            if part is None or part.code not in texts or change.kind == "same code":
                continue
            word = re.sub(r"\W+", "-", part.name).strip("-")[:60]
            path = folder / report.name / f"{number:03}-{word}.{which}.s"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[part.code])
            written[-1].append(str(path))
    return written
