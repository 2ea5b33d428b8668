"""``tilefleet build --as c`` and ``--as wheel``: a C library, checked before it is at its place."""

from __future__ import annotations

import hashlib
import json
import keyword
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.target import Target
from tilefleet.errors import TilefleetError
from tilefleet.module_check import called_beside, way_out
from tuner.backend.check import Check, worst
from tuner.backend.comparison import Build, OtherMachine, check_module
from tuner.backend.manifest import Manifest
from tuner.clibrary import extras
from tuner.clibrary.build import C_NAME, Made, Model, facts, make, only, ports_at, write
from tuner.clibrary.elf import code_bytes
from tuner.clibrary.header import header
from tuner.clibrary.on_board import ENTRY, packed_module
from tuner.clibrary.source import source
from tuner.clibrary.toolchain import ToolError, compile_c, link_shared
from tuner.clibrary.wheel import write_wheel
from tuner.intake.shapes import FixedShapes, OpenRange, at_length, text_of
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


def c_name(given: str | None, model: Path) -> str:
    """The name of a library: what the user gave, else the model's; TilefleetError where C cannot have it."""
    name = given if given is not None else re.sub(r"\W+", "_", model.stem, flags=re.ASCII).strip("_")
    if given is None and not C_NAME.fullmatch(name):
        name = f"model_{name}".rstrip("_")
    if not C_NAME.fullmatch(name):
        raise TilefleetError(f"--name {given!r} cannot begin names in C: use letters, digits and _")
    if keyword.iskeyword(name):
        raise TilefleetError(f"{name!r} is a word of Python's: choose another by --name")
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
            checks = [
                check_variant(model, made, number, folder, wanted)
                for number in range(len(made.library.variants))
            ]
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
    told = [
        f"{folder / library}: arena {manifest['arena_bytes']} bytes, weights "
        f"{manifest['weights']['bytes']} bytes; {folder / manifest['name']}.json has each layer"
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


def check_variant(model: Model, made: Made, number: int, folder: Path, wanted: Wanted) -> Check:
    """Run one variant of what was written to ``folder`` by itself beside the model's definition, on a board
    or where this machine can; one whose size is open at some lengths.

    Raises ToolError, TilefleetError where the board cannot be had.
    """
    if not wanted.check:
        return Check(made.manifests[number].tolerance, skipped="--no-check was given")
    library, manifest = made.library, made.manifests[number]
    alone_here = only(library, number)
    target, name = library.variants[number].target, library.name
    builds = {
        length: Build(str(model.path), shapes, target, model.threads, configs, manifest.tolerance)
        for length, shapes, configs in _checked(model, number % library.sets, manifest)
    }
    with tempfile.TemporaryDirectory(prefix="tilefleet-") as scratch:
        alone = Path(scratch)
        module = alone / f"{name}.so"
        if wanted.board is not None:
            packed_module(made, number, folder, module)
            more = {"module": str(module), "name": name, "arena": alone_here.arena_bytes}

            def on_board(length: int | None, build: Build) -> Check:
                outputs = [(list(port.shape), port.dtype) for port in ports_at(alone_here, length)]
                told = {**build.to_json(), **more, "outputs": outputs, "length": length}
                return Check(**called_beside(str(wanted.board), wanted.fleet, target, ENTRY, told))

            return _worst(builds, on_board)
        (alone / f"{name}.c").write_text(source(alone_here))
        (alone / f"{name}.h").write_text(header(alone_here))
        compile_c(alone / f"{name}.c", alone / f"{name}.o", target)
        kernels = extras.kernels(library, number // library.sets)
        weights = [folder / extras.weights(library)] if library.embed else []
        link_shared([alone / f"{name}.o", folder / kernels, *weights], module)
        more = {"name": name, "weights": "" if library.embed else str(folder / f"{name}.weights")}
        try:
            return _worst(builds, lambda _, build: check_module(module, build, entry=CHECK, more=more))
        except OtherMachine as reason:
            return Check(manifest.tolerance, skipped=f"{reason}{way_out(target.name)}")


def _checked(
    model: Model, number: int, manifest: Manifest
) -> Iterator[tuple[int | None, FixedShapes | None, tuple[Any, ...]]]:
    """The shapes at which a set is checked, with the configs that the definition is told of; of an open size
    the lengths, of most of which there are none."""
    if model.open is None:
        yield None, model.sets[number] if model.sets else model.shapes, manifest.configs
        return
    for length in OpenRange.of(model.open).checked:
        yield length, at_length(model.open, length), ()


def _worst(builds: Mapping[int | None, Build], check: Callable[[int | None, Build], Check]) -> Check:
    """The worst of the checks at each length, up to the first that says that it is wrong or was not made."""
    found: dict[str, Check] = {}
    for length, build in builds.items():
        name = "" if length is None else f"length {length}"
        found[name] = check(length, build)
        if not found[name].checked:
            break
    return worst(found)
