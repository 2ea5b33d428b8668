"""How far what a built model computes is from its definition, and how far it may be."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tuner.backend.check import Check
from tuner.backend.definition import Array, Definition
from tuner.backend.error import differs_in_kind, error_of
from tuner.backend.rows import matched

HALF_EPSILON = 2.0**-10
"""How far numbers that are nearly equal can be apart for having been rounded to float16."""
DRAWS = 2.0
"""How much further than the nudged definition an output may be: both are one draw of what rounding does."""
LIMIT = 0.1
"""Where an output may be further off than this, hardly any module could fail: it says nothing."""
FEW = 4
"""How many times each value of a tensor of few different ones is there, on average."""
SEEN = 4096
"""So many elements tell."""


def compared(found: Mapping[str, Array], defined: Definition, tolerance: float) -> Check:
    """How ``found`` differs from ``defined``: the first that is wrong, or the error of each.

    Rows that a choice put in order are compared in the order of the definition.
    """
    errors: dict[str, float] = {}
    allowed: dict[str, float] = {}
    blunt: list[str] = []
    tolerance = max(tolerance, defined.tolerance)
    right, nudged = defined.values, _in_order(defined.nudged, defined)
    found = _in_order(found, defined)
    for name, value in found.items():
        if _other_length(value, right[name], nudged[name]):
            # Data decide how many results there are, and other last bits make it others.
            errors[name] = allowed[name] = 1.0
            blunt.append(name)
            continue
        wrong = differs_in_kind(value, right[name])
        if wrong:
            return Check(tolerance, errors, allowed, defined.by, f"{name} {wrong}")
        if name in defined.places:
            errors[name], rounding = _of_places(value, defined, name)
        else:
            least = defined.least.get(name, 0.0)
            errors[name] = error_of(value, right[name], least)
            rounding = error_of(nudged[name], right[name], least)
        half = HALF_EPSILON if right[name].dtype == np.float16 else 0.0
        allowed[name] = max(tolerance, half, DRAWS * rounding)
        if allowed[name] > LIMIT or _says_nothing(right[name]):
            blunt.append(name)
        if not errors[name] <= allowed[name]:
            wrong = f"{name} differs by {errors[name]:.2g} from what {defined.by} computes"
            return Check(tolerance, errors, allowed, defined.by, f"{wrong}, {allowed[name]:.2g} is allowed")
    return Check(tolerance, errors, allowed, defined.by, blunt=blunt)


def _other_length(value: Array, right: Array, nudged: Array) -> bool:
    """Whether another length says nothing of a build: the nudged definition has another length itself, or its
    values are so different that its equal length is chance."""
    if value.ndim != right.ndim or value.dtype != right.dtype:
        return False
    if nudged.shape != right.shape:
        return True
    if sum(one != other for one, other in zip(value.shape, right.shape, strict=True)) != 1:
        return False
    return right.dtype.kind == "f" and DRAWS * error_of(nudged, right) > LIMIT


def _of_places(value: Array, defined: Definition, name: str) -> tuple[float, float]:
    """How far what lies at the places ``value`` is from what lies at the right ones, and what rounding makes
    of the tensor: of near ties either may be taken."""
    places = defined.places[name]
    feed = defined.values[places.of]
    taken, right = (places.taken(feed, each) for each in (value, defined.values[name]))
    if taken is None or right is None:
        return (0.0 if right is None and np.array_equal(value, defined.values[name]) else 1.0), 0.0
    scale = float(np.abs(feed.astype(np.float64)).max(initial=0.0, where=np.isfinite(feed)))
    return error_of(taken, right, scale), error_of(defined.nudged[places.of], feed)


def _in_order(values: Mapping[str, Array], defined: Definition) -> dict[str, Array]:
    """``values`` with the rows that a choice put in order in the order that the definition has them in."""
    chosen = {
        name: value for name, value in values.items() if name in defined.chosen and name not in defined.places
    }
    return {**values, **matched(chosen, defined.values, defined.counts)}


def is_coarse(right: Array) -> bool:
    """Whether it has few different values, or whole numbers: hardly any change of what they are made of
    makes others."""
    if right.dtype.kind != "f":
        return True
    seen = right.reshape(-1)[:SEEN]
    few = seen.size >= FEW and np.unique(seen).size * FEW <= seen.size
    return few or bool((seen == np.round(seen)).all())


def _says_nothing(right: Array) -> bool:
    """Whether about any module makes it: nothing, no number at all, many values that are all the same, or one
    truth."""
    if right.size == 0:
        return True
    if right.dtype.kind == "f" and not np.isfinite(right).any():
        return True
    alike = bool((right == right.flat[0]).all())
    return alike and (right.size > 1 or right.dtype.kind == "b")
