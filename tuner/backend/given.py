"""Inputs of the user's own, which a build is compared on as well: ``.npz`` files with an array for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.intake.shapes import FixedShapes, OpenRange, Shapes, at_length, is_open, text_of
from compiler.ir.graph import OnnxGraph
from compiler.load import load_graph
from tuner.backend.draws import Draw, Range, ranges_of

Array = npt.NDArray[Any]


class WrongInputs(ValueError):
    """A file does not hold what the model takes; the message says what should be there."""


@dataclass(frozen=True)
class GivenInputs:
    """A file of inputs, the number of the set of shapes that it fits, and its own shapes where that set
    leaves a size open."""

    file: Path
    number: int
    shapes: FixedShapes | None = None
    length: int | None = None


def read_draws(files: Sequence[str], graph: OnnxGraph) -> list[Draw]:
    """The files as draws, in the order of the model's inputs."""
    draws = []
    for name in files:
        arrays = _arrays(Path(name))
        draws.append(Draw(Path(name).name, {each: arrays[each] for each in graph.inputs}))
    return draws


def given_inputs(model: Path, sets: Sequence[Shapes], files: Sequence[Path]) -> list[GivenInputs]:
    """What the files hold for a model that is built for ``sets`` of shapes; raises WrongInputs for one that
    fits none, ModelError as ``load_graph``."""
    found, graphs = [], {}
    for file in files:
        arrays, problems = _arrays(file), []
        for number, given in enumerate(sets or [{}]):
            length = _length(given, arrays) if is_open(given) else None
            fixed = None if length is None else at_length(given, length)
            key = (number, text_of(fixed or {}))
            if key not in graphs:
                usual = at_length(given, OpenRange.of(given).usual) if is_open(given) else dict(given)
                graphs[key] = load_graph(model, fixed or usual)  # type: ignore[arg-type]
            problem = _problem(arrays, graphs[key])
            if not problem:
                found.append(GivenInputs(file, number, fixed, length))
                break
            problems.append(problem)
        else:
            several = f", and so on for all {len(problems)} sets of shapes" if len(problems) > 1 else ""
            raise WrongInputs(f"{file}: {problems[0]}{several}")
    return found


def fits(file: str, graph: OnnxGraph) -> bool:
    """Whether a file is for a model of these shapes."""
    return not _problem(_arrays(Path(file)), graph)


def _length(given: Shapes, arrays: Mapping[str, Array]) -> int | None:
    """What the open size of a set is in ``arrays``; None where that is not of the range."""
    for name, shape in given.items():
        for axis, size in enumerate(shape):
            if isinstance(size, str) and name in arrays and arrays[name].ndim == len(shape):
                length, allowed = arrays[name].shape[axis], OpenRange.of(given)
                return length if allowed.first <= length <= allowed.last else None
    return None


def _arrays(file: Path) -> dict[str, Array]:
    try:
        with np.load(file, allow_pickle=False) as opened:
            return {name: np.asarray(opened[name]) for name in opened.files}
    except Exception:  # numpy raises whatever it happens to run into
        raise WrongInputs(
            f"{file} is no .npz file of plain arrays, as numpy.savez(file, x=...) writes it"
        ) from None


def _problem(arrays: Mapping[str, Array], graph: OnnxGraph) -> str:
    """What is wrong with the arrays as inputs of a model; empty where nothing is."""
    unknown = sorted(arrays.keys() - graph.inputs.keys())
    if unknown:
        return f"the model has no input {unknown[0]!r}; it has: {', '.join(graph.inputs)}"
    ranges = ranges_of(graph)
    for name, info in graph.inputs.items():
        if name not in arrays:
            return f"there are no data for input {name!r}; every input needs some"
        value = arrays[name]
        if value.dtype != np.dtype(info.dtype):
            return (
                f"input {name!r} is {value.dtype} and should be {info.dtype}: .astype({info.dtype!r}) does it"
            )
        if value.shape != info.shape:
            return f"input {name!r} has the shape {list(value.shape)} and should have {list(info.shape)}"
        if name in ranges and (problem := _outside(value, ranges[name])):
            return f"input {name!r} {problem}"
    return ""


def _outside(value: Array, allowed: Range) -> str:
    """Where a value is outside of what the model has, counted from the end as well."""
    low = allowed.low if allowed.length else 2 * allowed.low - allowed.high - 1
    wrong = np.argwhere((value < low) | (value > allowed.high))
    if not len(wrong):
        return ""
    place = tuple(int(each) for each in wrong[0])
    where = f" at {list(place)}" if place else ""
    return f"holds {value[place]}{where}, and there are the {allowed.of} from {allowed.low} to {allowed.high}"
