"""Batches: what a job has built and measured together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernels.space import Config
from kernels.workload.base import Workload
from worker.candidate import Candidate
from worker.demand import Demand
from worker.outcome import OnOutcome

VERIFY_ROUNDS = 7
"""Rounds after which the order of a few candidates can be trusted."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Configs of one workload for boards that meet one demand.

    With ``rounds`` all of them are timed so many times in turn, so that their order can be trusted.
    ``on_outcome`` gets each outcome with its place as soon as it is there. Once ``cancelled`` is set,
    whatever has not ended ends as ``cancelled``.
    """

    workload: Workload
    configs: Sequence[Config]
    demand: Demand
    rounds: int = 0
    on_outcome: OnOutcome = lambda place, outcome: None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def candidates(self) -> list[Candidate]:
        """The configs as they are built."""
        demand = self.demand
        return [Candidate(self.workload, config, demand.target, demand.threads) for config in self.configs]
