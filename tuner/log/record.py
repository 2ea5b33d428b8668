"""Records: what a trial leaves in the tuning log, and their JSON-lines form."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import ConfigDict

from kernels import target as targets
from kernels.layout import Layouts
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import Target
from kernels.workload import base as workloads
from kernels.workload.base import Workload
from kernels.workload.checked import STRICT_FIELDS, read
from tuner.log.relayouts import FIELD as RELAYOUTS
from worker.outcome import ErrorKind

FORMAT = 1
Identity = tuple[str, str, str, str, int, int]
"""(workload, target, clock, config, kernel version, threads): what makes two records one measurement."""


class LogError(ValueError):
    """A damaged line of a tuning log; the message names the line."""


@dataclass(frozen=True)
class Record:
    """One trial with its circumstances.

    ``cost_s`` is the median in seconds (None after an error); ``verified_s`` the median of the interleaved
    re-measurements that the best few get, of which there were ``remeasured``. ``in_place_s`` is the median
    of its calls inside a built model. Such times compare only within one run, so what the run of a few
    records leaves is their order: each gets as ``placed_s`` that one of their isolated costs that has its
    place. ``ranking_s`` orders records of one (workload, target, clock, threads); costs of different clocks
    are never compared. Where ``disturbed``, others had the machine as well (docs/measuring.md): such a record
    ranks behind all that were measured quietly. One that is ``imported`` is the word of another lab, and
    ranks behind all that were measured here. ``max_error``, ``counters``, ``temperature_c`` and
    ``frequency_mhz`` are as in an Outcome.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    workload: Workload
    target: Target
    config: Config
    kernel_version: int
    threads: int = 1
    clock: str = "wall"
    cost_s: float | None = None
    verified_s: float | None = None
    remeasured: int = 0
    in_place_s: float | None = None
    placed_s: float | None = None
    repeats_s: tuple[float, ...] = ()
    spread: float | None = None
    disturbed: bool = False
    imported: bool = False
    max_error: float | None = None
    cold: bool = True
    error: ErrorKind | None = None
    message: str = ""
    board: str = ""
    counters: dict[str, int] = field(default_factory=dict)
    temperature_c: float | None = None
    frequency_mhz: float | None = None
    toolchain: dict[str, str] = field(default_factory=dict)
    created: str = ""

    @property
    def ranking_s(self) -> float | None:
        """The cost that counts: its place among those measured in place, else the verified one if any."""
        return self.isolated_s if self.placed_s is None else self.placed_s

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """What records of one (workload, target, clock, threads) are sorted by, the best first.

        No imported time comes before one of this lab, no disturbed one before a quiet one, and those that
        failed come last.
        """
        if self.ranking_s is None:
            return (True, True, math.inf)
        return (self.imported, self.disturbed, self.ranking_s)

    @property
    def doubtful(self) -> bool:
        """Whether another measurement here would say more."""
        return self.disturbed or self.imported

    @property
    def isolated_s(self) -> float | None:
        """The cost measured by itself: the verified one where there is one."""
        return self.cost_s if self.verified_s is None else self.verified_s

    @property
    def layouts(self) -> Layouts:
        """What its config reads and writes."""
        return self.config.layouts

    @property
    def gflops(self) -> float | None:
        """Billions of the workload's operations a second, of floats or integers."""
        return self.workload.flops / self.isolated_s / 1e9 if self.isolated_s else None

    @property
    def numerics(self) -> Numerics:
        """What its config computes with."""
        # Here, because kernels bring TVM along, for which those who only read logs should not have to wait.
        from kernels import registry

        return registry.numerics_of(self.workload, self.config)

    @property
    def identity(self) -> Identity:
        """Deduplication goes by this."""
        return (
            self.workload.key,
            self.target.key,
            self.clock,
            self.config.key,
            self.kernel_version,
            self.threads,
        )

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON values; ``from_json`` reads it back."""
        return {
            "format": FORMAT,
            "workload": workloads.to_json(self.workload),
            "target": targets.to_json(self.target),
            "config": self.config.to_json(),
            "kernel_version": self.kernel_version,
            "threads": self.threads,
            "clock": self.clock,
            "cost_s": self.cost_s,
            "verified_s": self.verified_s,
            "remeasured": self.remeasured,
            "in_place_s": self.in_place_s,
            "placed_s": self.placed_s,
            "repeats_s": list(self.repeats_s),
            "spread": self.spread,
            "disturbed": self.disturbed,
            "imported": self.imported,
            "max_error": self.max_error,
            "cold": self.cold,
            "error": self.error,
            "message": self.message,
            "board": self.board,
            "counters": self.counters,
            "temperature_c": self.temperature_c,
            "frequency_mhz": self.frequency_mhz,
            "toolchain": self.toolchain,
            "created": self.created,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Record:
        """Read a record; raises ValueError that names what is wrong with it."""
        if not isinstance(value, dict):
            raise ValueError(f"a record is a JSON object, got {type(value).__name__}")
        if value.get("format") != FORMAT:
            raise ValueError(f"record format {value.get('format')!r} is not {FORMAT}")
        fields = {name: item for name, item in value.items() if name != "format"}
        try:
            fields["workload"] = workloads.from_json(fields["workload"])
            fields["target"] = targets.from_json(fields["target"])
            fields["config"] = Config.from_json(fields["config"])
        except KeyError as error:
            raise ValueError(f"record lacks {error}") from None
        record = read(cls, fields, "record")
        if (record.cost_s is None) == (record.error is None):
            raise ValueError("a record has either cost_s or error")
        for name in ("cost_s", "verified_s", "in_place_s", "placed_s"):
            seconds = getattr(record, name)
            if seconds is not None and not 0 < seconds < math.inf:
                raise ValueError(f"{name} must be a positive number of seconds, got {seconds!r}")
        if record.error is not None and (record.verified_s is not None or record.placed_s is not None):
            raise ValueError("a record with an error has no verified_s and no placed_s")
        return record


def comparable(records: Iterable[Record]) -> list[Record]:
    """Those of one search that ran here and undisturbed, or all that ran where none did: their seconds
    compare."""
    ran = [record for record in records if record.ranking_s is not None]
    return [record for record in ran if not record.doubtful] or ran


def write_log(records: Iterable[Record]) -> Iterator[str]:
    """Records as JSON lines, each ending in a newline."""
    for record in records:
        yield json.dumps(record.to_json(), separators=(",", ":")) + "\n"


def read_log(lines: Iterable[str]) -> Iterator[Record]:
    """Records of a JSON-lines log; raises LogError that names the first damaged line.

    The first line, or others with times of layout changes (``tuner/log/relayouts.py``), are passed over.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if not (isinstance(value, dict) and RELAYOUTS in value):
                yield Record.from_json(value)
        except RecursionError:
            raise LogError(f"line {number} of the log is damaged: it is nested too deeply") from None
        except (ValueError, OverflowError) as error:
            raise LogError(f"line {number} of the log is damaged: {error}") from None
