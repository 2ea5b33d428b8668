"""T4 files of other tools: what each configuration of somebody else's kernel took."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kernels.space import Config, Value
from tuner.log.t4 import OURS, check_version, is_t4, time_s

_CORRECT, _CONSTRAINTS = "correct", "constraints"
"""T4's words for a result that ran, and for one that is no point of the space."""


def is_foreign(value: Any) -> bool:
    """Whether a JSON value is a T4 document that says no workload of ours."""
    return is_t4(value) and OURS not in value


def read_foreign(value: Mapping[str, Any], kernel: str) -> dict[Config, float | None]:
    """The seconds of each config of ``kernel``, as this file calls it; None for one that failed.

    What breaks the file's own constraints is no point of its space, and left out. Raises ValueError that
    names the result for other knobs than the first one's, a config with two times, and a time that is none.
    """
    check_version(value)
    costs: dict[Config, float | None] = {}
    knobs: set[str] = set()
    for number, result in enumerate(value["results"], 1):
        try:
            if result["invalidity"] == _CONSTRAINTS:
                continue
            point = {name: _value(item) for name, item in result["configuration"].items()}
            config = Config.of(kernel, **point)
            cost = time_s(result) if result["invalidity"] == _CORRECT else None
            if cost is not None and not 0 < cost < math.inf:
                raise ValueError(f"a time of {cost} s")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            said = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"result {number}: {said}") from None
        knobs = knobs or set(point)
        if set(point) != knobs:
            raise ValueError(
                f"result {number} has the knobs {sorted(point)}, those before it {sorted(knobs)}"
            )
        if costs.setdefault(config, cost) != cost:
            raise ValueError(f"result {number} has another time for a configuration that was there: {config}")
    return costs


def _value(item: Any) -> Value:
    """A knob's value: whole numbers as such, all else as its text."""
    if isinstance(item, int) or (isinstance(item, float) and item.is_integer()):
        return int(item)
    if isinstance(item, (str, float)):
        return str(item)
    raise ValueError(f"the value of a knob must be a number or a word, not {item!r:.80}")
