"""Which config of a tuning log each workload of a model gets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import registry
from kernels.target import Target
from kernels.workload import Workload
from tuner.extract import extract
from tuner.onnx_check import Shapes
from tuner.record import Record


class OtherTargetError(ValueError):
    """A log without a record for the target; the message names the targets it is for."""


@dataclass(frozen=True)
class Match:
    """One distinct workload of a model and the record a build would use, None when the log has none."""

    workload: Workload
    count: int
    record: Record | None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; ``status`` is ``exact`` or ``missing``."""
        return {
            "key": self.workload.key,
            "name": str(self.workload),
            "count": self.count,
            "status": "missing" if self.record is None else "exact",
            "config": None if self.record is None else self.record.config.to_json(),
            "expected_s": None if self.record is None else self.record.ranking_s,
        }


def best_records(
    records: Iterable[Record], target: Target, threads: int = 1, clock: str = "wall"
) -> dict[str, Record]:
    """The fastest usable record of each workload, by workload key.

    Usable are records without an error, of this target, thread count and clock, made with a kernel that
    still generates the same code. Raises OtherTargetError when all records are for other targets.
    """
    best: dict[str, Record] = {}
    others: set[str] = set()
    matching = 0
    for record in records:
        if record.target.key != target.key:
            others.add(record.target.name)
            continue
        matching += 1
        if record.ranking_s is None or (record.threads, record.clock) != (threads, clock):
            continue
        kernel = registry.all_kernels().get(record.config.kernel)
        if kernel is None or kernel.version != record.kernel_version:
            continue
        known = best.get(record.workload.key)
        if known is None or record.ranking_s < (known.ranking_s or 0.0):
            best[record.workload.key] = record
    if others and not matching:
        names = ", ".join(sorted(others))
        raise OtherTargetError(f"the log has no record for target {target.name} ({target.key}), only {names}")
    return best


def check(
    path: str | Path,
    records: Iterable[Record],
    target: Target,
    shapes: Shapes | None = None,
    threads: int = 1,
) -> list[Match]:
    """For each distinct workload of the model at ``path``, what a build with these records would use.

    Raises ModelError for the model and OtherTargetError for the log.
    """
    best = best_records(records, target, threads)
    operators = extract(path, shapes).operators
    return [
        Match(operator.workload, operator.count, best.get(operator.workload.key)) for operator in operators
    ]
