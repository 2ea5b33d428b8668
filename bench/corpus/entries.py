"""The files of the corpus: where each is from, and what its inputs take."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.made_models import MADE

LIST = Path(__file__).parents[1] / "corpus.toml"
SUFFIXES = (".onnx", ".tflite")


@dataclass(frozen=True)
class Package:
    """A package of ``pypi`` or ``npm``, and its licence."""

    registry: str
    name: str
    version: str
    licence: str


@dataclass(frozen=True)
class Input:
    """What the file does not say of an input.

    ``shape`` is that of a dynamic one. Its values are all ``value``, or random: from ``between[0]`` on, below
    ``between[1]``, or whatever ``random_feeds`` takes for its type. One with a ``constant`` is no input any
    more, but always that number.
    """

    shape: Sequence[int] | None = None
    value: float | None = None
    constant: float | None = None
    between: Sequence[float] | None = None


@dataclass(frozen=True)
class Entry:
    """One model: a file in a package, ``path`` of the user's, or one that ``bench.made_models`` makes."""

    name: str
    path: str
    kind: str = ""
    package: Package | None = None
    made: bool = False
    sha256: str = ""
    inputs: dict[str, Input] = field(default_factory=dict)

    @property
    def constants(self) -> dict[str, list[float]]:
        """The values of inputs that are none any more."""
        return {name: [each.constant] for name, each in self.inputs.items() if each.constant is not None}

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, without the inputs."""
        package = {} if self.package is None else {**asdict(self.package), "package": self.package.name}
        return {**package, "name": self.name, "file": self.path, "kind": self.kind}


def listed(path: Path = LIST) -> list[Entry]:
    """The files that ``corpus.toml`` lists, and behind them the graphs that are made here."""
    entries = []
    for package in tomllib.loads(path.read_text())["package"]:
        files = package.pop("file")
        for each in files:
            inputs = {name: Input(**value) for name, value in each.pop("inputs", {}).items()}
            entries.append(Entry(**each, package=Package(**package), inputs=inputs))
    return entries + [Entry(name, f"{name}.onnx", "standard graph", made=True) for name in MADE]


def found(folder: Path, known: Sequence[Entry]) -> list[Entry]:
    """The model files under ``folder``; one called like a ``known`` one has its inputs.

    Raises ValueError where there is none.
    """
    inputs = {entry.name: entry.inputs for entry in known}
    paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)
    if not paths:
        raise ValueError(f"there is no .onnx or .tflite file in {folder}")
    return [Entry(path.stem, str(path), inputs=inputs.get(path.stem, {})) for path in paths]


def chosen(entries: Sequence[Entry], only: Sequence[str]) -> list[Entry]:
    """Those that ``only`` names, wholly or as a pattern with ``*``; all where it names none.

    Raises ValueError for a name that no entry has.
    """
    if not only:
        return list(entries)
    patterns = {name: re.compile(re.escape(name).replace(r"\*", ".*")) for name in only}
    for name, pattern in patterns.items():
        if not any(pattern.fullmatch(entry.name) for entry in entries):
            raise ValueError(
                f"--only {name}: there is none called so; there are {', '.join(e.name for e in entries)}"
            )
    return [entry for entry in entries if any(each.fullmatch(entry.name) for each in patterns.values())]
