"""Which config of a tuning log each workload of a model gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from compiler.intake.extract import extract
from compiler.intake.shapes import GivenShapes
from kernels import registry
from kernels.layout import PLAIN, Layouts
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import AnyChain, Conv2d, Epilogue, Gemm, NarrowGemm, Workload
from tuner.log.record import Record

T = TypeVar("T")


class OtherTargetError(ValueError):
    """A log without a record for the target; the message names the targets it is for."""


@dataclass(frozen=True)
class Match:
    """One distinct workload of a model and the record a build would use.

    None when the log has none; ``reason`` then says why none of those it has of the workload will do.
    ``instead`` is the analysis's config with its predicted seconds, where a build prefers that to the record.
    """

    workload: Workload
    count: int
    record: Record | None
    reason: str = ""
    instead: tuple[Config, float] | None = None

    @property
    def status(self) -> str:
        """``found`` or ``missing``, or ``analysis`` where a build prefers its config to the record's."""
        if self.record is None:
            return "missing"
        return "found" if self.instead is None else "analysis"

    @property
    def config(self) -> Config | None:
        """What a build would use; None when the log has nothing."""
        if self.instead is not None:
            return self.instead[0]
        return None if self.record is None else self.record.config

    @property
    def expected_s(self) -> float | None:
        """The seconds of that."""
        if self.instead is not None:
            return self.instead[1]
        return None if self.record is None else self.record.ranking_s

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        config, record = self.config, None if self.instead else self.record
        return {
            "key": self.workload.key,
            "name": str(self.workload),
            "count": self.count,
            "status": self.status,
            "config": None if config is None else config.to_json(),
            "numerics": None if config is None else registry.numerics_of(self.workload, config).value,
            "max_error": None if record is None else record.max_error,
            "expected_s": self.expected_s,
            "reason": self.reason,
        }


def best_by_layouts(
    records: Iterable[Record], target: Target, threads: int = 1, numerics: Numerics = Numerics.EXACT_INTEGERS
) -> dict[str, dict[Layouts, Record]]:
    """The fastest usable record of each workload and pair of layouts, by workload key, of one clock.

    Of a workload that was measured here and quietly, in whatever layouts, other times are left out.
    Usable are records without an error, of this target and thread count, made with a kernel that still
    generates the same code, of a config that ``numerics`` allows. Raises OtherTargetError when all records
    are for other targets.
    """
    records = list(records)
    return _choose(records, target, threads, clock_of(records, target), numerics)[0]


def check(
    path: str | Path,
    records: Iterable[Record],
    target: Target,
    shapes: GivenShapes = None,
    threads: int = 1,
    numerics: Numerics = Numerics.EXACT_INTEGERS,
) -> list[Match]:
    """For each distinct workload of the model at ``path``, what a build with these records would use.

    Where there are several layouts to choose from, it is the record from NCHW to NCHW, or else the fastest;
    a build chooses for each layer (``as_chosen``). Raises ModelError for the model and OtherTargetError for
    the log.
    """
    records = list(records)
    found, refused = _choose(records, target, threads, clock_of(records, target), numerics)
    # In the order in which they were found: the fastest is the first.
    best = {key: each.get(PLAIN) or next(iter(each.values())) for key, each in found.items()}
    return [
        Match(
            operator.workload,
            operator.count,
            record,
            "" if record else refused.get(operator.workload.key, ""),
        )
        for operator in extract(path, shapes).operators
        for record in [found_for(best, operator.workload)]
    ]


def as_chosen(
    matches: Iterable[Match], chosen: Iterable[tuple[Workload, Record | tuple[Config, float]]]
) -> list[Match]:
    """``matches`` with what a build has ``chosen`` for its layers: a record, or a config with its predicted
    seconds. Layers of one workload may have different choices: the most frequent one counts."""
    by_key: dict[str, list[Record | tuple[Config, float]]] = {}
    for workload, choice in chosen:
        by_key.setdefault(workload.key, []).append(choice)
    most = {key: max(found, key=found.count) for key, found in by_key.items()}

    def changed(match: Match) -> Match:
        choice = found_for(most, match.workload)
        if match.record is None or choice is None:
            return match
        if isinstance(choice, Record):
            return replace(match, record=choice)
        return replace(match, instead=choice)

    return [changed(match) for match in matches]


def with_chains(matches: Iterable[Match], chosen: Sequence[Record]) -> list[Match]:
    """``matches`` with the chains that were ``chosen`` for pairs of a build's layers, in place of these."""
    chains: dict[AnyChain, list[Record]] = {}
    for record in chosen:
        if isinstance(record.workload, AnyChain):
            chains.setdefault(record.workload, []).append(record)
    inside = Counter(part.key for chain, each in chains.items() for part in chain.parts * len(each))
    left = [replace(match, count=match.count - inside[match.workload.key]) for match in matches]
    found = [Match(workload, len(each), each[0]) for workload, each in chains.items()]
    return [match for match in left if match.count > 0] + found


def found_for(known: Mapping[str, T], workload: Workload) -> T | None:
    """What is known by the key of ``workload``, or else of the same without its activation.

    That is what logs have from when activations, and what follows them, were no part of products. All
    configs of the one are configs of the other.
    """
    found = known.get(workload.key)
    epilogue = workload.epilogue
    if (
        found is not None
        or not isinstance(workload, Conv2d | Gemm | NarrowGemm)
        or epilogue.activation is None
    ):
        return found
    bare = Epilogue(epilogue.bias, epilogue.residual and not epilogue.late)
    return known.get(replace(workload, epilogue=bare).key)


def clock_of(records: list[Record], target: Target) -> str:
    """The one clock whose records count: the wall clock where there is one, else the newest record's."""
    ours = [record for record in records if record.target.key == target.key]
    if not ours or any(record.clock == "wall" for record in ours):
        return "wall"
    return max(ours, key=lambda record: record.created).clock


def _choose(
    records: Iterable[Record], target: Target, threads: int, clock: str, numerics: Numerics
) -> tuple[dict[str, dict[Layouts, Record]], dict[str, str]]:
    """The fastest usable record by workload key and layouts, and by workload key why the fastest of those
    that are not usable is not.
    """
    records = list(records)
    ours = [record for record in records if record.target.key == target.key]
    if records and not ours:
        names = ", ".join(sorted({record.target.name for record in records}))
        raise OtherTargetError(f"the log has no record for target {target.name} ({target.key}), only {names}")
    best: dict[str, dict[Layouts, Record]] = {}
    refused: dict[str, str] = {}
    # The best first: whether a config is valid then need not be found out for all the others. Of equal ones
    # the order of the log is of no account.
    for record in sorted(ours, key=lambda record: (record.rank, record.config.key)):
        key, layouts = record.workload.key, record.config.layouts
        known = best.get(key, {})
        if layouts in known or (record.doubtful and not all(each.doubtful for each in known.values())):
            continue
        reason = _why_not(record, threads, clock, numerics)
        if reason is None:
            best.setdefault(key, {})[layouts] = record
        else:
            refused.setdefault(key, reason)
    return best, refused


def _why_not(record: Record, threads: int, clock: str, numerics: Numerics) -> str | None:
    """Why a build cannot use ``record``, or None when it can."""
    if record.ranking_s is None:
        return f"it failed: {record.error}"
    if record.threads != threads:
        return f"it was measured with threads={record.threads}"
    if record.clock != clock:
        return f"its clock is {record.clock}"
    kernel = registry.all_kernels().get(record.config.kernel)
    if kernel is None:
        return f"there is no kernel {record.config.kernel}"
    if kernel.version != record.kernel_version:
        return f"{kernel.name} is version {kernel.version} by now, the record's is {record.kernel_version}"
    space = registry.space_of(record.workload, record.config, record.target, record.threads)
    reason = space if isinstance(space, str) else space.why_not(record.config)
    return reason or registry.why_not_allowed(record.workload, record.config, numerics)
