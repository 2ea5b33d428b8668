"""``tilefleet build --as c`` and ``--as wheel``: a C library, checked before it is at its place."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compiler.intake.shapes import text_of
from kernels.target import Target
from tilefleet.emulated import EMULATED_S, emulator_of, gave_up
from tilefleet.errors import TilefleetError
from tilefleet.module_check import BoardSilent, called_beside
from tilefleet.server_check import NOT_SENT, NotChecked, check_by_server, request_of
from tuner.backend.check import Check
from tuner.backend.comparison import Build, OtherMachine, check_module
from tuner.backend.given import GivenInputs
from tuner.clibrary import extras
from tuner.clibrary.build import C_NAME, Made, Model, facts, make, write
from tuner.clibrary.checks import builds_of, digest_of, link_alone, told_of, worst_of
from tuner.clibrary.elf import code_bytes
from tuner.clibrary.on_board import ENTRY, packed_module
from tuner.clibrary.reserved import reserved
from tuner.clibrary.toolchain import ToolError
from tuner.clibrary.wheel import write_wheel
from tuner.job.delivery import TIMEOUT_S
from worker.fleet.drivers.agent_build import AgentBuildError

CHECK = "tuner.clibrary.run:check_in_child"


@dataclass(frozen=True)
class Wanted:
    """Where a library goes and how it is made. ``title`` is the model's file, ``log`` the tuning log's.

    ``wheel``: what goes there is a Python package of it alone, and the manifest. It is checked on ``board``,
    which the file ``fleet`` may have, else here.
    """

    folder: Path
    name: str
    title: str
    log: Path
    targets: Sequence[Target]
    embedded: bool
    wheel: bool
    check: bool
    board: str | None
    fleet: Path | None
    inputs: Sequence[GivenInputs] = ()


def c_name(given: str | None, model: Path, wheel: bool) -> str:
    """The name of a library: what the user gave, else the model's; TilefleetError where C cannot have it, or
    another has it that a ``wheel`` or a program needs."""
    name = given if given is not None else re.sub(r"\W+", "_", model.stem, flags=re.ASCII).strip("_")
    if given is None and (not C_NAME.fullmatch(name) or reserved(name, wheel)):
        name = f"model_{name}".rstrip("_")
    if not C_NAME.fullmatch(name):
        raise TilefleetError(f"--name {given!r} cannot begin names in C: use letters, digits and _")
    if whose := reserved(name, wheel):
        raise TilefleetError(f"--name {name} is {whose}: choose another, such as model_{name}")
    return name


def build_c_library(model: Model, wanted: Wanted) -> dict[str, Any]:
    """Write the library and return its manifest; nothing is written when it is wrong.

    Raises TilefleetError, ModelError for a model that cannot be written as C, OtherTargetError.
    """
    log = hashlib.sha256(wanted.log.read_bytes()).hexdigest()
    made = make(model, wanted.targets, wanted.name, wanted.title, log, wanted.embedded)
    wanted.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unchecked-", dir=wanted.folder) as scratch:
        folder = Path(scratch)
        try:
            write(made, folder)
            checks = checks_of(model, made, folder, wanted)
        except (ToolError, AgentBuildError) as error:
            raise TilefleetError(str(error)) from None
        for check in checks:
            if check.wrong:
                raise TilefleetError(
                    f"{wanted.title}: the library is wrong and was not written: {check.wrong} ({check.where})"
                )
        manifest = manifest_of(made, checks, folder)
        described = folder / f"{wanted.name}.json"
        described.write_text(json.dumps(manifest, indent=2) + "\n")
        files = sorted(folder.iterdir())
        if wanted.wheel:
            files = [described, _packed(made, manifest, folder)]
        for file in files:
            file.replace(wanted.folder / file.name)
    return manifest | {"files": [file.name for file in files]}


def lines_of(manifest: Mapping[str, Any], folder: Path) -> list[str]:
    """What was built into ``folder``, for people."""
    library = next(file for file in manifest["files"] if file.endswith((".a", ".whl")))
    bound = max(each["arena"]["lower_bound"] for each in manifest["variants"])
    told = [
        f"{folder / library}: arena {manifest['arena_bytes']} bytes (at least {bound} are in use at once), "
        f"weights {manifest['weights']['bytes']} bytes; {folder / manifest['name']}.json has each layer"
    ]
    several = len(manifest["sets"]) > 1
    for each in manifest["variants"]:
        of = f"{each['target']['name']}, {text_of(each['inputs'])}" if several else each["target"]["name"]
        told.append(f"{of}: {Check(**each['check'])}")
    return told


def _packed(made: Made, manifest: dict[str, Any], folder: Path) -> Path:
    objects = [f"{made.library.name}.o", *extras.objects(made.library)]
    try:
        return write_wheel(made.library, [folder / each for each in objects], manifest, folder)
    except (ToolError, AgentBuildError) as error:
        raise TilefleetError(str(error)) from None


def manifest_of(made: Made, checks: Sequence[Check], folder: Path) -> dict[str, Any]:
    """What is told of a library that was written to ``folder``, and of each variant."""
    manifest = {**facts(made.library)}
    for number, (variant, layers, check) in enumerate(
        zip(manifest["variants"], made.manifests, checks, strict=True)
    ):
        kernels = folder / extras.kernels(made.library, number // made.library.sets)
        variant |= {"kernel_bytes": code_bytes(kernels.read_bytes()), **layers.to_json(), **check.to_json()}
    manifest["code_bytes"] = code_bytes((folder / f"{made.library.name}.o").read_bytes())
    return manifest


def checks_of(model: Model, made: Made, folder: Path, wanted: Wanted) -> list[Check]:
    """Run each variant of what was written to ``folder`` by itself beside the model's definition, on the
    board that is named, where this machine can, on an idle board of the server, or on an emulator.

    A check a variant. Raises ToolError, TilefleetError where the named board cannot be had.
    """
    found: list[Check] = []
    sets = made.library.sets
    for level in range(len(made.library.levels)):
        numbers = range(level * sets, (level + 1) * sets)
        try:
            found += [_check_variant(model, made, number, folder, wanted) for number in numbers]
        except OtherMachine as reason:
            found += _checks_elsewhere(model, made, level, folder, wanted, str(reason))
    return found


def _check_variant(
    model: Model, made: Made, number: int, folder: Path, wanted: Wanted, timeout_s: float = TIMEOUT_S
) -> Check:
    """Of one whose size is open, that at some lengths. Raises OtherMachine where no board is named and this
    machine is another."""
    if not wanted.check:
        return Check(made.manifests[number].tolerance, skipped="--no-check was given")
    library, board = made.library, wanted.board
    target, name = library.variants[number].target, library.name
    builds = builds_of(model, made, number, wanted.inputs)
    with tempfile.TemporaryDirectory(prefix="tilefleet-") as scratch:
        module = Path(scratch) / f"{name}.so"
        if board is not None:
            packed_module(made, number, folder, module)

            def on_board(length: int | None, build: Build) -> Check:
                told = told_of(made, number, length, build, module)
                return Check(**called_beside(board, wanted.fleet, target, ENTRY, told, timeout_s))

            return worst_of(builds, on_board)
        link_alone(made, number, folder, module)
        more = {"name": name, "weights": "" if library.embed else str(folder / f"{name}.weights")}
        return worst_of(builds, lambda _, build: check_module(module, build, entry=CHECK, more=more))


def _checks_elsewhere(
    model: Model, made: Made, level: int, folder: Path, wanted: Wanted, reason: str
) -> list[Check]:
    """A check for each set of shapes at one level, as a board of the server has it, else an emulator."""
    library = made.library
    manifests = made.manifests[level * library.sets :][: library.sets]
    target = library.levels[level].target
    names = [each.target.name for each in library.levels]
    request = request_of(manifests, model.given, model.records, model.numerics, model.relayouts)
    request["library"] = {"name": library.name, "targets": names, "level": level}
    try:
        if wanted.inputs:
            raise NotChecked(NOT_SENT)
        found = check_by_server(model.path, target.name, request, digest_of(made, folder), "library")
    except NotChecked as why:
        try:
            emulated = replace(wanted, board=emulator_of(target), fleet=None)
            numbers = range(level * library.sets, (level + 1) * library.sets)
            return [_check_variant(model, made, each, folder, emulated, EMULATED_S) for each in numbers]
        except NotChecked as also:
            skipped = f"{reason}, and {why}; {also}"
        except BoardSilent as error:
            skipped = f"{reason}, and {why}; {gave_up(emulated.board or '', error)}"
        return [Check(each.tolerance, skipped=skipped) for each in manifests]
    # Behind one that is wrong, the server has run none.
    return found + [found[-1]] * (library.sets - len(found))
