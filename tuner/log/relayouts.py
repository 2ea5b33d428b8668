"""What copying activations between layouts took on a board, as it is stored and as a log has it."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, prod
from typing import Any, ClassVar

from pydantic import ConfigDict

from kernels import target as targets
from kernels.target import Target
from kernels.workload.checked import STRICT_FIELDS, read
from worker.measure.relayout_time import VERSION

FORMAT = 1
FIELD = "relayouts"
"""The field by which a line of a log is known to hold these times and no record."""
KIND = "Tilefleet tuning log"
"""What the first line of a log calls it."""
FIRST = 1
"""The version of times that say none."""


@dataclass(frozen=True)
class Relayouts:
    """Measured on boards of ``target`` with ``threads``: (elements, seconds) pairs by ``from>to``.

    ``relayouts`` is what the ``version`` of ``worker.measure.relayout_time`` gave, or that read from JSON.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    target: Target
    threads: int
    clock: str
    relayouts: dict[str, list[tuple[float, float]]]
    version: int = VERSION

    def seconds(self, shape: tuple[int, ...], source: str, to: str) -> float | None:
        """Of a tensor of NCHW ``shape``, linear between the sizes measured; None where nothing was."""
        points = sorted((size, time) for size, time in self.relayouts.get(f"{source}>{to}", ()))
        if not points:
            return None
        elements = prod(shape)
        at = min(max(bisect_left(points, (elements, 0.0)), 1), len(points) - 1)
        (x0, y0), (x1, y1) = points[at - 1] if at else (0, 0.0), points[at]
        if elements >= x1:
            return y1 * elements / x1  # beyond the largest
        if elements <= x0:
            return y0  # below the smallest: mostly the call
        return y0 + (y1 - y0) * (elements - x0) / (x1 - x0)

    def to_json(self) -> dict[str, Any]:
        """These times as plain JSON values."""
        return {
            FIELD: self.relayouts,
            "version": self.version,
            "target": targets.to_json(self.target),
            "threads": self.threads,
            "clock": self.clock,
        }

    def line(self) -> str:
        """The line that held these times in logs without a header, with its end."""
        return json.dumps({"format": FORMAT, **self.to_json()}, separators=(",", ":")) + "\n"


def header(found: Iterable[Relayouts] = ()) -> str:
    """The first line of a log, with its end: what the log is, and all in it that is no record.

    So all other lines have one schema, which ``tilefleet log --json-schema`` prints.
    """
    value = {
        "format": FORMAT,
        "log": KIND,
        "schema": "tilefleet log --json-schema",
        FIELD: [each.to_json() for each in found],
    }
    return json.dumps(value, separators=(",", ":")) + "\n"


def read_relayouts(lines: Iterable[str]) -> Iterator[Relayouts]:
    """The times in a log; raises ValueError for a damaged line of them.

    They are in the log's first line; in older logs each is a line of its own.
    """
    for line in lines:
        value = json.loads(line) if f'"{FIELD}"' in line else None
        if not isinstance(value, dict) or FIELD not in value:
            continue
        if value.pop("format", None) != FORMAT:
            raise ValueError(f"the format of a log's times of layout changes is not {FORMAT}")
        yield from _read(value[FIELD] if isinstance(value[FIELD], list) else [value])


def _read(values: list[Any]) -> Iterator[Relayouts]:
    for value in values:
        if not isinstance(value, dict):
            raise ValueError(f"times of layout changes are a JSON object, got {value!r:.80}")
        value.setdefault("version", FIRST)
        value["target"] = targets.from_json(value.get("target", {}))
        found = read(Relayouts, value, "times of layout changes")
        numbers = (number for times in found.relayouts.values() for pair in times for number in pair)
        if not all(0 < number < inf for number in numbers):
            raise ValueError("times of layout changes must be positive numbers of elements and seconds")
        yield found


def stored(times: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """What is kept of times that were just measured."""
    return {"version": VERSION, FIELD: times}


def is_current(document: dict[str, Any]) -> bool:
    """Whether ``stored`` times are of today's version."""
    return document.get("version") == VERSION


def of_stored(document: dict[str, Any], target: Target, threads: int, clock: str) -> Relayouts:
    """``stored`` times; those of the first version stand alone."""
    times = document.get(FIELD, document)
    pairs = {pair: [(size, seconds) for size, seconds in points] for pair, points in times.items()}
    return Relayouts(target, threads, clock, pairs, document.get("version", FIRST))


def fitting(found: Iterable[Relayouts], target: Target, threads: int, clock: str) -> Relayouts | None:
    """The last that were measured for ``target``, ``threads`` and ``clock`` the way they are today."""
    chosen = None
    wanted = (target.key, threads, clock, VERSION)
    for each in found:
        if (each.target.key, each.threads, each.clock, each.version) == wanted:
            chosen = each
    return chosen
