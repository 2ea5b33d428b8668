"""Inputs that a model's definition takes, and what it makes of them."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.ir.graph import OnnxGraph
from tuner.backend.definition import DEADLINE_S, Definition, Source, Undefined, define_each
from tuner.backend.draws import Draw, fallbacks_of

Defined = tuple[Draw, Definition | Undefined]


def defined_draws(
    source: Source,
    given: Sequence[Draw],
    drawn: Sequence[Draw],
    graph: OnnxGraph | None = None,
    deadline_s: float = DEADLINE_S,
) -> list[Defined]:
    """What the definition is of what is ``given`` and ``drawn``, or why there is none.

    Where it refuses what is usually drawn for ``graph``, others are tried. What onnxruntime runs with none
    of them, onnx's own evaluator may.
    """
    found = _defined(source, [*given, *drawn], deadline_s)
    if graph is None or not isinstance(found[len(given)][1], Undefined):
        return found
    fallbacks = [*fallbacks_of(graph)]
    more = _defined(source, fallbacks, deadline_s) if fallbacks else []
    if _all_refused([*found, *more]) and source.tflite is None:
        by_onnx = _defined(source, [*given, *drawn], deadline_s, reference=True)
        return found if _all_refused(by_onnx) else by_onnx
    return [*found, *more]


def _defined(
    source: Source, draws: Sequence[Draw], deadline_s: float, reference: bool = False
) -> list[Defined]:
    made = define_each(source, [draw.feeds for draw in draws], (), deadline_s, reference=reference)
    return [*zip(draws, made, strict=True)]


def _all_refused(defined: Sequence[Defined]) -> bool:
    return all(isinstance(each, Undefined) for _, each in defined)
