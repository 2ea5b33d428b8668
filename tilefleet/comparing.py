"""``tilefleet compare``: a model by every runtime that is here, and by ours, side by side."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from kernels import target as targets
from kernels.numerics import Numerics
from kernels.target import Target
from tilefleet.errors import TilefleetError
from tuner.backend.error import error_of
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts
from tuner.runtimes.engines import read_arrays
from tuner.runtimes.prepare import PACKAGES, installed
from worker.children.nursery import ChildError, ChildRaised, Nursery

OURS = "tilefleet"
ALONE_S, TOGETHER_S, BUILD_S = 600.0, 900.0, 900.0
MEMORY_BYTES = 16 << 30
LONGEST_S = 60.0
"""How long the turns may take in all, beyond the three rounds that each runtime gets."""
LEAST_ROUNDS = 3
WRONG = 0.02
"""Whose outputs are further off does not compute the model, and wins nothing."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")


@dataclass(frozen=True)
class Wanted:
    """A model (one file) and how it is built: ``records`` and ``relayouts`` are those of a log, if any."""

    model: Path
    target: Target
    threads: int
    numerics: Numerics
    shapes: Mapping[str, Any] | None
    records: Sequence[Record]
    relayouts: Sequence[Relayouts]
    rounds: int


@dataclass(frozen=True)
class Row:
    """One runtime: what it took, or ``why`` it did not compute the model.

    ``start_s`` is importing it, loading the model and the first run, in a fresh process that then has
    ``resident_bytes``, Python and NumPy among them. ``file_bytes`` is what it loads. ``error`` is the largest
    of its outputs relative to their largest value. ``alone``: its turns were in a process of its own.
    """

    name: str
    version: str
    seconds: float | None = None
    p90_s: float | None = None
    start_s: float | None = None
    resident_bytes: int | None = None
    file_bytes: int | None = None
    error: float | None = None
    alone: bool = False
    why: str = ""

    @property
    def right(self) -> bool:
        """Whether it was timed and computes the model."""
        return self.seconds is not None and not self.why


@dataclass(frozen=True)
class Comparison:
    """All rows, the fastest first; ``by`` says what is right, or ``undefined`` why nobody does."""

    rows: tuple[Row, ...]
    by: str
    undefined: str
    missing: tuple[str, ...]

    @property
    def winner(self) -> Row | None:
        """The fastest that computes the model."""
        return next((row for row in self.rows if row.right), None)


@dataclass
class Engine:
    """A runtime that has its file: what ``tuner/runtimes/alone.py`` is asked for."""

    name: str
    version: str
    engine: str
    path: Path
    inputs: list[str]
    outputs: list[str]
    row: Row = field(init=False)
    call_s: float = 0.0

    def __post_init__(self) -> None:
        sizes = [self.path, *([self.path.with_suffix(".bin")] if self.engine == "ncnn" else [])]
        self.row = Row(self.name, self.version, file_bytes=sum(each.stat().st_size for each in sizes))

    def request(self, about: Mapping[str, Any], threads: int, outputs: Path) -> dict[str, Any]:
        """What ``tuner/runtimes/alone.py`` is asked for; ``about`` is what ``defined`` says."""
        return {
            "engine": self.engine,
            "path": str(self.path),
            "inputs": self.inputs,
            "feeds": about["feeds"],
            "names": about["inputs"],
            "threads": threads,
            "outputs": str(outputs),
        }


def compare(wanted: Wanted, told: Callable[[str], object] = lambda _: None) -> Comparison:
    """Build, run and time all of them; ``told`` hears what is under way. Raises TilefleetError."""
    with tempfile.TemporaryDirectory(prefix="tilefleet-compare-") as name, Nursery() as nursery:
        folder = Path(name)
        model = {"model": str(wanted.model), "shapes": wanted.shapes}
        about = defined(nursery, model, folder, told)
        rows: list[Row] = []
        engines: list[Engine] = []
        for each in engines_of(
            nursery, wanted, model, about, folder, told, installed(), _own(bool(wanted.records))
        ):
            (rows if isinstance(each, Row) else engines).append(each)  # type: ignore[arg-type]
        ready = []
        for each in engines:
            told(f"{each.name} by itself")
            try:
                _alone(each, wanted, about, folder)
            except Failed as reason:
                rows.append(replace(each.row, why=str(reason)))
                continue
            ready.append(each)
        told("all in turns")
        rows += _in_turns(ready, wanted, about, folder)
    rows.sort(key=lambda row: (not row.right, row.seconds or float("inf")))
    return Comparison(tuple(rows), about["by"], about["why"], missing_of(installed()))


def missing_of(there: Mapping[str, str]) -> tuple[str, ...]:
    """The runtimes that are not among ``there``."""
    return tuple(sorted(PACKAGES.keys() - there.keys()))


class Failed(Exception):
    """Why a runtime has no time."""


def defined(
    nursery: Nursery, model: Mapping[str, Any], folder: Path, told: Callable[[str], object]
) -> dict[str, Any]:
    """The model's inputs and outputs, and files of both."""
    told("the model's definition")
    files = {each: str(folder / f"{each}.npz") for each in ("feeds", "values", "nudged")}
    try:
        found = _call(nursery, "tuner.runtimes.child:define_in_child", {**model, **files})
    except Failed as reason:
        raise TilefleetError(str(reason)) from None
    return {**found, **files}


def _call(nursery: Nursery, entry: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = nursery.call(entry, payload, timeout_s=BUILD_S, memory_bytes=MEMORY_BYTES)
    except ChildRaised as error:
        raise Failed(
            error.message.strip().splitlines()[0][:200] if error.message else error.type_name
        ) from None
    except ChildError as error:
        raise Failed(str(error)[:200]) from None
    return found


def engines_of(
    nursery: Nursery,
    wanted: Wanted,
    model: Mapping[str, Any],
    about: Mapping[str, Any],
    folder: Path,
    told: Callable[[str], object],
    peers: Mapping[str, str],
    own: Iterable[tuple[str, str, str, bool]],
    tools: Sequence[Path] = (),
) -> Iterator[Engine | Row]:
    """Every runtime with its file, or a row of why it has none.

    ``peers`` are versions by name, ``own`` name, version, kind and whether by the log, of what we build.
    Converters that are not installed may be in the folders ``tools``.
    """
    for name, of in peers.items():
        told(f"{name}'s file")
        mine = folder / name
        mine.mkdir()
        payload = {**model, **about, "name": name, "folder": str(mine), "tools": [*map(str, tools)]}
        try:
            found = _call(nursery, "tuner.runtimes.child:prepare_in_child", payload)
        except Failed as reason:
            found = {"why": str(reason)}
        if "why" in found:
            yield Row(name, of, why=found["why"])
        else:
            yield Engine(name, of, name, Path(found["path"]), about["inputs"], about["outputs"])
    for name, of, how, tuned in own:
        told(f"{name}: a build")
        mine = folder / name.replace(" ", "_").replace(",", "")
        mine.mkdir()
        payload = {
            **model,
            "target": targets.to_json(wanted.target),
            "threads": wanted.threads,
            "numerics": wanted.numerics.value,
            "records": [each.to_json() for each in wanted.records] if tuned else [],
            "relayouts": [each.line() for each in wanted.relayouts] if tuned else [],
            "how": how,
            "folder": str(mine),
        }
        try:
            found = _call(nursery, "tuner.runtimes.child:build_in_child", payload)
        except Failed as reason:
            yield Row(name, of, why=str(reason))
            continue
        engine = "library" if how.endswith("library") else "tvm"
        yield Engine(name, of, engine, Path(found["path"]), found["inputs"], found["outputs"])


def _own(tuned: bool) -> Iterator[tuple[str, str, str, bool]]:
    """Name, version, kind and whether by the log, of what we build."""
    ours = version("tilefleet")
    yield "TVM default", version("apache-tvm"), "default", False
    yield f"{OURS}, untuned", ours, "module", False
    if tuned:
        yield f"{OURS}, tuned", ours, "module", True
    yield f"{OURS}, C library", ours, "library", tuned


def _alone(engine: Engine, wanted: Wanted, about: Mapping[str, Any], folder: Path) -> None:
    """Its start, its memory and its error, from a fresh process."""
    outputs = folder / "outputs.npz"
    request = engine.request(about, wanted.threads, outputs)
    found = _process("tuner.runtimes.alone", request, wanted.threads, folder, ALONE_S)
    error, wrong = error_against(outputs, engine.outputs, about)
    engine.call_s = found["call"]
    engine.row = replace(
        engine.row,
        start_s=found["start"],
        resident_bytes=found["resident_bytes"],
        error=error,
        why=wrong,
    )


def error_against(file: Path, names: Sequence[str], about: Mapping[str, Any]) -> tuple[float | None, str]:
    """The largest error of the outputs in ``file``, called ``names``, and what is wrong, if anything is."""
    if not about["by"]:
        return None, ""
    right, other = (read_arrays(about[each], about["outputs"]) for each in ("values", "nudged"))
    with np.load(file) as outputs:
        found = [outputs[each] for each in outputs.files]
    worst = 0.0
    if len(found) != len(names):
        return None, f"it has {len(found)} outputs, and the model {len(names)}"
    for name, value in zip(names, found, strict=True):
        if value.size != right[name].size:
            return None, f"{name} has the shape {[*value.shape]}, and should have {[*right[name].shape]}"
        error = error_of(value.reshape(right[name].shape), right[name])
        worst = max(worst, error)
        if error > max(WRONG, 2 * error_of(other[name], right[name])):
            return error, f"it is wrong: {name} is off by {error:.2g}"
    return worst, ""


def _in_turns(engines: Sequence[Engine], wanted: Wanted, about: Mapping[str, Any], folder: Path) -> list[Row]:
    """Their rows with times: in one process, or each in its own where they do not bear each other."""
    together = [each for each in engines if not each.row.why]
    apart = [each.row for each in engines if each.row.why]
    if not together:
        return apart
    round_s = sum(each.call_s for each in together)
    rounds = max(LEAST_ROUNDS, min(wanted.rounds, int(LONGEST_S / max(round_s, 1e-3))))

    def timed(some: Sequence[Engine]) -> dict[str, list[float]]:
        parts = [
            {"name": each.name, "engine": each.engine, "path": str(each.path), "inputs": each.inputs}
            for each in some
        ]
        request = {
            "threads": wanted.threads,
            "rounds": rounds,
            "engines": parts,
            "feeds": about["feeds"],
            "names": about["inputs"],
        }
        found: dict[str, list[float]] = _process(
            "tuner.runtimes.together", request, wanted.threads, folder, TOGETHER_S
        )
        return found

    try:
        seconds = timed(together)
        return apart + [_timed(each.row, seconds[each.name]) for each in together]
    except Failed:
        pass
    rows = []
    for each in together:
        try:
            rows.append(_timed(replace(each.row, alone=True), timed([each])[each.name]))
        except Failed as reason:
            rows.append(replace(each.row, why=str(reason)))
    return apart + rows


def _timed(row: Row, seconds: Sequence[float]) -> Row:
    ordered = sorted(seconds)
    p90 = ordered[round(0.9 * (len(ordered) - 1))]
    return replace(row, seconds=statistics.median(ordered), p90_s=p90)


def _process(
    module: str, request: Mapping[str, Any], threads: int, folder: Path, timeout_s: float
) -> dict[str, Any]:
    """What a fresh Python says that runs ``module`` with ``request``; raises Failed."""
    path = folder / "request.json"
    path.write_text(json.dumps(request))
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", module, str(path)],
            env={**os.environ, **dict.fromkeys(_THREADS, str(threads))},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"it takes more than {timeout_s:g} s") from None
    if done.returncode < 0:
        raise Failed(f"its process died of signal {-done.returncode}")
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise Failed(said[-1].strip()[:200])
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
