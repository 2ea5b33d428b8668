"""What a log says to a build: which configs it may choose from for each product, and what they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernels import registry
from kernels.layout import Layouts
from kernels.numerics import Numerics
from kernels.target import Target
from kernels.workload.base import Workload
from tuner.layouts.options import NOTHING, Known, Option, options_of
from tuner.layouts.ratios import Ratios
from tuner.log.picks import best_by_layouts, clock_of, found_for
from tuner.log.record import Record, comparable


@dataclass(frozen=True)
class Evidence:
    """The records of one target, thread count and clock; ``known`` is by workload key.

    ``ratios`` are measured over predicted seconds of the fastest record of each workload and pair of layouts.
    """

    target: Target
    threads: int
    numerics: Numerics
    known: Mapping[str, Known]
    ratios: Ratios

    @classmethod
    def of(cls, records: Iterable[Record], target: Target, threads: int, numerics: Numerics) -> Evidence:
        """What these records say. Raises OtherTargetError when all are for other targets."""
        records = list(records)
        best, clock = best_by_layouts(records, target, threads, numerics), clock_of(records, target)
        ran: dict[str, list[Record]] = {}
        failed: dict[str, list[Record]] = {}
        for record in records:
            if record.workload.key in best and _of_today(record, target, threads, clock):
                kind = ran if record.error is None else failed
                if record.error is None or not record.error.transient:
                    kind.setdefault(record.workload.key, []).append(record)
        ratios = Ratios()
        for record in (record for of_one in best.values() for record in of_one.values()):
            assert record.isolated_s is not None  # failed trials are no best
            kernel = registry.kernel(record.config.kernel)
            predicted_s = kernel.predict(record.workload, record.config, target, threads)
            ratios.learn(record.config.family, record.isolated_s, predicted_s)
        known = {
            key: Known(
                each,
                frozenset(record.config for record in comparable(ran.get(key, ()))),
                frozenset(record.config for record in failed.get(key, ())),
            )
            for key, each in best.items()
        }
        return cls(target, threads, numerics, known, ratios)

    def of_workload(self, workload: Workload) -> Known:
        """What is known of ``workload``, or of the same without its activation."""
        return found_for(self.known, workload) or NOTHING

    def options(self, workload: Workload) -> dict[Layouts, Option] | None:
        """What a build may choose from; None when no kernel computes it."""
        known = self.of_workload(workload)
        return options_of(workload, self.target, self.threads, self.numerics, known, self.ratios)

    def fastest_s(self, workload: Workload) -> float | None:
        """The least seconds that a build may choose, in whatever layouts; None of what has no record."""
        if not self.of_workload(workload).best:
            return None
        return min((option.seconds for option in (self.options(workload) or {}).values()), default=None)


def _of_today(record: Record, target: Target, threads: int, clock: str) -> bool:
    kernel = registry.all_kernels().get(record.config.kernel)
    circumstances = (record.target.key, record.threads, record.clock, record.kernel_version)
    return circumstances == (target.key, threads, clock, kernel.version if kernel else None)
