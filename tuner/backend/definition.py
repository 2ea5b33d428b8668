"""What a model computes by its own definition: a TFLite file by LiteRT; any other by onnxruntime without
optimisation, else onnx's reference.

They run in a process of their own with a deadline: ``tuner.backend.evaluation``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, ValueInfoProto

from compiler.ir.checks import Shapes
from compiler.ir.own_nodes import HALVES
from compiler.readers.model_file import is_tflite, read_as_written
from tuner.backend import evaluation, litert
from tuner.backend.choices import Places, chosen_by, places_of
from tuner.backend.evaluation import load_arrays

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]

DEADLINE_S = 300.0
SHARES = {"Sigmoid", "Softmax", "Tanh", "Erf"}
"""Operators of results up to one, of which onnxruntime has each to some 1e-7, however small it is."""
LEAST_SHARE = 1e-3
"""What differences of shares that are all tiny are relative to."""
_SAME = {"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"}
WAYS = (litert.PLAIN, litert.FAST, evaluation.CONVERTED)
"""Of a TFLite file, one after another: the plain kernels may take too long, and any may crash."""


class Undefined(Exception):
    """The definition could not be computed; the message says why."""


@dataclass(frozen=True)
class Definition:
    """The tensors that ``feeds`` lead to, and which library says so.

    ``nudged`` are the same when every float of the feeds is NUDGE of the largest away from what it is: what
    differs no more than that is as right as can be asked for, as rounding does that to all values. Where no
    input has floats, but data are quantized on the way, it is the floats of the constants. ``least`` is what
    differences of a tensor are relative to at least: of those that come out of one of SHARES, and of bytes.
    ``chosen`` are the tensors whose order or number a choice decides, ``counts`` how many it takes, and
    ``places`` the outputs that say where what it took lies in a tensor that is among the values.
    ``tolerance`` is how far any tensor may be off for what the library itself rounds.
    """

    values: dict[str, Array]
    nudged: dict[str, Array]
    by: str
    least: Mapping[str, float] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    counts: frozenset[int] = frozenset()
    places: Mapping[str, Places] = field(default_factory=dict)
    feeds: Feeds = field(default_factory=dict)
    tolerance: float = 0.0

    @property
    def finite(self) -> bool:
        """Whether all values are numbers."""
        return all(np.isfinite(value).all() for value in self.values.values() if value.dtype.kind == "f")


@dataclass(frozen=True)
class Source:
    """A model as its file has it, and the file itself where that is TFLite's."""

    model: ModelProto
    tflite: Path | None = None

    @classmethod
    def of(cls, path: str | Path, shapes: Shapes | None = None) -> Source:
        """The one at ``path``; raises ModelError as ``read_model`` does."""
        return cls(read_as_written(path, shapes), Path(path) if is_tflite(path) else None)


def define(
    model: ModelProto | Source,
    feeds: Feeds,
    more: Collection[str] = (),
    deadline_s: float = DEADLINE_S,
    fixed: Collection[str] = (),
    reference: bool = False,
) -> Definition:
    """What the outputs of ``model``, and the tensors ``more``, are for ``feeds``, see ``define_each``.

    Raises Undefined, also when that takes longer than ``deadline_s``.
    """
    source = model if isinstance(model, Source) else Source(model)
    (found,) = define_each(source, [feeds], more, deadline_s, fixed, reference)
    if isinstance(found, Undefined):
        raise found
    return found


def define_each(
    source: Source,
    draws: Sequence[Feeds],
    more: Collection[str] = (),
    deadline_s: float = DEADLINE_S,
    fixed: Collection[str] = (),
    reference: bool = False,
) -> list[Definition | Undefined]:
    """What the outputs, and the tensors ``more``, are for each of ``draws``, or why that is not known.

    Inputs in ``fixed`` are never nudged. With ``reference`` onnx's own evaluator alone is asked.
    """
    model, names = source.model, [value.name for value in source.model.graph.output]
    places = places_of(model)
    more = list(dict.fromkeys([*more, *(each.of for each in places.values())]))
    end = time.monotonic() + deadline_s
    with tempfile.TemporaryDirectory(prefix="tilefleet-define-") as place:
        folder = Path(place)
        wanted = ModelProto()
        wanted.CopyFrom(model)
        wanted.graph.output.extend(ValueInfoProto(name=name) for name in more if name not in names)
        names += [name for name in more if name not in names]
        (folder / evaluation.MODEL).write_bytes(wanted.SerializeToString())
        inputs = list(draws[0])
        for number, feeds in enumerate(draws):
            np.savez(folder / evaluation.FEEDS.format(number), *(feeds[name] for name in inputs))
        asked = {"inputs": inputs, "draws": len(draws), "fixed": list(fixed), "reference": reference}
        ways: list[str] = [""]
        if source.tflite is not None:
            (folder / evaluation.TFLITE).symlink_to(source.tflite.resolve())
            ways = list(WAYS)
        for number, way in enumerate(ways):
            last = number == len(ways) - 1
            asked |= {"way": way, "before": _before(way)}
            # What is left is shared with the ways that may have to follow.
            problem = _run(folder, asked, (end - time.monotonic()) / (1 if last else 2), deadline_s)
            if not problem or last:
                break
        chosen, counts = chosen_by(model, names)
        widened = not source.tflite and any(each.key == HALVES for each in model.metadata_props)
        shares = dict.fromkeys(_shares(model, names), LEAST_SHARE)
        found: list[Definition | Undefined] = []
        for number in range(len(draws)):
            told = folder / evaluation.TOLD.format(number)
            answer: dict[str, Any] = json.loads(told.read_text()) if told.exists() else {"why": problem}
            if why := answer.get("why"):
                found.append(Undefined(why))
                continue
            values, nudged, fed = (
                dict(zip(keys, load_arrays(folder / file.format(number)), strict=True))
                for keys, file in (
                    (names, evaluation.VALUES),
                    (names, evaluation.NUDGED),
                    (inputs, evaluation.FEEDS),
                )
            )
            least = {**shares, **answer["least"]}
            by = answer["by"] + (" (of the model computed in float32)" if widened else "")
            about = (by, least, chosen, counts, places, fed, answer["tolerance"])
            found.append(Definition(values, nudged, *about))
    return found


def _before(way: str) -> str:
    """Why it is not computed as it should be, where another way came to no end."""
    return "" if way in ("", litert.PLAIN) else "LiteRT's plain kernels came to no end"


def _run(folder: Path, asked: Mapping[str, Any], timeout_s: float, deadline_s: float) -> str:
    """Have a process compute what ``folder`` holds; why it did not, or an empty text."""
    (folder / evaluation.ASKED).write_text(json.dumps(asked))
    command = [sys.executable, "-P", "-m", "tuner.backend.evaluation", str(folder)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=max(timeout_s, 0.001), check=False
        )
    except subprocess.TimeoutExpired:
        return f"the model's definition was not computed within {deadline_s:g} s"
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        return f"the model's definition cannot be computed: {reason}"
    return ""


def _shares(model: ModelProto, names: Collection[str]) -> frozenset[str]:
    """Those of the tensors ``names`` that come out of one of SHARES, as it makes them."""
    makers = {name: node for node in model.graph.node for name in node.output}

    def is_share(name: str) -> bool:
        while name in makers and makers[name].op_type in _SAME:
            name = makers[name].input[0]
        return name in makers and makers[name].op_type in SHARES

    return frozenset(filter(is_share, names))
