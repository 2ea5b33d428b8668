"""What a build may choose from for each product: configs that were measured beside those of the analysis."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Literal

from kernels import registry
from kernels.layout import Layouts
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Workload
from tuner.layouts.ratios import Ratios
from tuner.log.record import Record

Source = Literal["log", "analysis"]
TELL = 1.25
"""Predictions cannot tell which of two configs is faster when they are nearer than this."""


@dataclass(frozen=True)
class Option:
    """A config that a product may get, what it is expected to take, and the record that says so.

    ``source`` is ``log`` also for a config that the caller gives, with or without a record.
    """

    config: Config
    seconds: float
    record: Record | None = None
    source: Source = "log"


Options = Mapping[Layouts, Option]


@dataclass(frozen=True)
class Known:
    """What a log has of one workload.

    ``best`` is the fastest record of each pair of layouts. ``ran`` and ``failed`` are the configs of all
    records that a build could use, but for their errors.
    """

    best: Mapping[Layouts, Record] = field(default_factory=dict)
    ran: Set[Config] = frozenset()
    failed: Set[Config] = frozenset()


NOTHING = Known()


def options_of(
    workload: Workload,
    target: Target,
    threads: int,
    numerics: Numerics,
    known: Known = NOTHING,
    ratios: Ratios | None = None,
) -> dict[Layouts, Option] | None:
    """What a build may choose from for ``workload``, by layouts; None when no kernel computes it.

    The analysis's config of each pair of layouts competes with the records, so that a log forbids nothing.
    Where a pair has no record, its config has a predicted time, scaled by ``ratios`` (measured over
    predicted). Where a pair has one, of another config than the analysis's, that is beaten only by a
    prediction that can tell: if it is the one trial of its workload, nothing shows that anybody looked for a
    better one, so any shorter prediction does. A record that was measured again beside others stands, and so
    does one of a simulated clock, which has no luck: a log of the best alone lacks what lost to it.
    """
    if registry.why_not_tunable(workload, target) is not None:
        return None
    ratios = ratios or Ratios()
    found = {layouts: measured(record) for layouts, record in known.best.items()}
    picks: dict[Layouts, Option] = {}
    recommended = registry.recommendations(workload, target, numerics, threads, any_layout=True)
    for config in [each for each in recommended if each not in known.failed] or recommended:
        seconds = expected_s(workload, config, target, threads, ratios)
        if config.layouts not in picks or seconds < picks[config.layouts].seconds:
            picks[config.layouts] = Option(config, seconds, None, "analysis")
    for layouts, pick in picks.items():
        if layouts not in found or (pick.config not in known.ran and _beats(pick, found[layouts], known)):
            found[layouts] = pick
    return found


def _beats(pick: Option, best: Option, known: Known) -> bool:
    """Whether the analysis's config, which was not measured, takes the place of the best record."""
    assert best.record is not None
    if best.record.verified_s is not None or best.record.clock != "wall":
        return False
    return pick.seconds * (1.0 if len(known.ran) == 1 else TELL) < best.seconds


def forced(
    workload: Workload,
    config: Config,
    target: Target,
    threads: int,
    numerics: Numerics,
    record: Record | None,
) -> dict[Layouts, Option]:
    """No choice: ``config``, with what ``record`` has measured of it.

    Raises ValueError when it is no config of the workload that ``numerics`` allows.
    """
    space = registry.space_of(workload, config, target, threads)
    why_not = space if isinstance(space, str) else space.why_not(config)
    why_not = why_not or registry.why_not_allowed(workload, config, numerics)
    if why_not is not None:
        raise ValueError(f"the config for {workload} cannot be used: {why_not}")
    predicted = Option(config, expected_s(workload, config, target, threads, Ratios()))
    return {config.layouts: measured(record) if record else predicted}


def measured(record: Record) -> Option:
    """The option that a record is; it did not fail."""
    assert record.ranking_s is not None
    return Option(record.config, record.ranking_s, record)


def expected_s(workload: Workload, config: Config, target: Target, threads: int, ratios: Ratios) -> float:
    """The predicted seconds of ``config``, scaled by what was measured of its family, or of all."""
    return registry.kernel(config.kernel).predict(workload, config, target, threads) * ratios.of(
        config.family
    )
