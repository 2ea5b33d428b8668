"""What copying activations between layouts took on a board, as it is stored and as a log has it."""

from __future__ import annotations

import json
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from pydantic import ConfigDict

from kernels import target as targets
from kernels.target import Target
from kernels.workload.checked import STRICT_FIELDS, read
from worker.measure import plausible
from worker.measure.relayout_time import VERSION

FORMAT = 1
FIELD = "relayouts"
"""The field by which a line of a log is known to hold these times and no record."""
KIND = "Tilefleet tuning log"
"""What the first line of a log calls it."""
FIRST = 1
"""The version of times that say none."""
_LEFT_OUT = "line {} of the log: times of layout changes are left out: {}"
log = logging.getLogger(__name__)


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


def read_relayouts(lines: Iterable[str], warn: Callable[[str], None] = log.warning) -> Iterator[Relayouts]:
    """The times in a log. What is wrong with some of them is told by ``warn``, and these are left out: a
    log serves without them, as one does in which none were measured.

    They are in the log's first line; in older logs each is a line of its own.
    """
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line) if f'"{FIELD}"' in line else None
        except (ValueError, RecursionError):  # which is said where records are read
            continue
        if not isinstance(value, dict) or FIELD not in value:
            continue
        said = value[FIELD] if isinstance(value[FIELD], list) else [value]
        if value.pop("format", None) != FORMAT:
            said = []
            warn(_LEFT_OUT.format(number, f"their format is not {FORMAT}"))
        for each in said:
            try:
                yield _read(each)
            except (ValueError, TypeError) as error:
                warn(_LEFT_OUT.format(number, error))


def _read(value: Any) -> Relayouts:
    if not isinstance(value, dict):
        raise ValueError(f"times of layout changes are a JSON object, got {value!r:.80}")
    given = {"version": FIRST, **value, "target": targets.from_json(value.get("target", {}))}
    return _checked(read(Relayouts, given, "times of layout changes"))


def _checked(found: Relayouts) -> Relayouts:
    """Raises ValueError for times that no machine takes."""
    for pair, points in found.relayouts.items():
        if not plausible.copies(points, found.target, found.threads):
            raise ValueError(
                f"times of layout changes cannot be as they are from {pair.replace('>', ' to ')!s:.80}"
            )
    return found


def stored(times: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """What is kept of times that were just measured."""
    return {"version": VERSION, FIELD: times}


def of_stored(document: dict[str, Any], target: Target, threads: int, clock: str) -> Relayouts:
    """``stored`` times; those of the first version stand alone. Raises ValueError for what cannot be."""
    if not isinstance(document, dict):
        raise ValueError(f"times of layout changes are a JSON object, got {document!r:.80}")
    times = document.get(FIELD, document)
    given = {FIELD: times, "version": document.get("version", FIRST)}
    return _checked(
        read(
            Relayouts,
            {**given, "target": target, "threads": threads, "clock": clock},
            "times of layout changes",
        )
    )


def fitting(found: Iterable[Relayouts], target: Target, threads: int, clock: str) -> Relayouts | None:
    """The last that were measured for ``target``, ``threads`` and ``clock`` the way they are today."""
    chosen = None
    wanted = (target.key, threads, clock, VERSION)
    for each in found:
        if (each.target.key, each.threads, each.clock, each.version) == wanted:
            chosen = each
    return chosen
