"""A C library beside its model's definition: which lengths are compared, and what runs where."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from compiler.intake.shapes import FixedShapes, OpenRange, at_length
from tuner.backend.check import Check, worst
from tuner.backend.comparison import Build
from tuner.backend.given import GivenInputs
from tuner.clibrary import extras
from tuner.clibrary.build import Made, Model, only, ports_at
from tuner.clibrary.header import header
from tuner.clibrary.source import source
from tuner.clibrary.toolchain import compile_c, link_shared

Builds = Mapping[int | None, Build]


def builds_of(model: Model, made: Made, number: int, inputs: Sequence[GivenInputs] = ()) -> Builds:
    """What variant ``number`` is compared as, with ``inputs`` of the user's own: by the length, where a size
    is open, else under None."""
    manifest = made.manifests[number]
    target = made.library.variants[number].target
    files = [given for given in inputs if given.number == number % made.library.sets]
    lengths = [given.length for given in files if given.shapes is not None]
    return {
        length: Build(
            str(model.path),
            shapes,
            target,
            model.threads,
            configs,
            manifest.tolerance,
            [str(given.file) for given in files if given.length == length],
        )
        for length, shapes, configs in _checked(model, number % made.library.sets, manifest.configs, lengths)
    }


def _checked(
    model: Model, number: int, configs: tuple[Any, ...], more: Sequence[int | None]
) -> Iterator[tuple[int | None, FixedShapes | None, tuple[Any, ...]]]:
    """The shapes at which a set is checked, with the configs that the definition is told of; of an open size
    the lengths, of most of which there are none."""
    if model.open is None:
        yield None, model.sets[number] if model.sets else model.shapes, configs
        return
    for length in sorted({*OpenRange.of(model.open).checked, *(each for each in more if each)}):
        yield length, at_length(model.open, length), ()


def worst_of(builds: Builds, check: Callable[[int | None, Build], Check]) -> Check:
    """The worst of the checks at each length, up to the first that says that it is wrong or was not made."""
    found: dict[str, Check] = {}
    for length, build in builds.items():
        name = "" if length is None else f"length {length}"
        found[name] = check(length, build)
        if not found[name].checked:
            break
    return worst(found)


def link_alone(made: Made, number: int, folder: Path, output: Path) -> None:
    """Link variant ``number`` of what was written to ``folder`` as a shared library; raises ToolError."""
    library, name = made.library, made.library.name
    alone_here, target = only(library, number), library.variants[number].target
    with tempfile.TemporaryDirectory(prefix="tilefleet-") as scratch:
        alone = Path(scratch)
        (alone / f"{name}.c").write_text(source(alone_here))
        (alone / f"{name}.h").write_text(header(alone_here))
        compile_c(alone / f"{name}.c", alone / f"{name}.o", target)
        kernels = extras.kernels(library, number // library.sets)
        weights = [folder / extras.weights(library)] if library.embed else []
        link_shared([alone / f"{name}.o", folder / kernels, *weights], output)


def told_of(made: Made, number: int, length: int | None, build: Build, module: Path) -> dict[str, Any]:
    """What ``on_board.check_in_child`` is told of ``module``, which ``packed_module`` wrote; without the
    board."""
    alone_here = only(made.library, number)
    outputs = [(list(port.shape), port.dtype) for port in ports_at(alone_here, length)]
    told = {"module": str(module), "name": made.library.name, "arena": alone_here.arena_bytes}
    told["refusals"] = alone_here.refusals
    return {**build.to_json(), **told, "outputs": outputs, "length": length}


def digest_of(made: Made, folder: Path) -> str:
    """SHA-256 of the code and the weights of what was written to ``folder``, whatever its model and log are
    called and wherever its weights are."""
    library = made.library
    alike = replace(library, embed=True, model="", log="")
    found = hashlib.sha256(source(alike).encode() + library.weights.sha256)
    for level in range(len(library.levels)):
        found.update((folder / extras.kernels(library, level)).read_bytes())
    return found.hexdigest()
