"""What a search strategy is given: the space of one workload and what is known of it without measuring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels import registry
from kernels.numerics import Numerics
from kernels.space import Config, SearchSpace
from kernels.target import Target
from kernels.workload.base import Workload


@dataclass(frozen=True)
class Problem:
    """What is searched: a workload on a target, its space, and what is known without measuring.

    ``seeds`` are the kernels' recommendations, one a family, the analysis's pick first; ``predict`` gives
    predicted seconds, of which only the order matters.
    """

    workload: Workload
    target: Target
    space: SearchSpace
    seeds: tuple[Config, ...]
    predict: Callable[[Config], float]

    @classmethod
    def of(
        cls,
        workload: Workload,
        target: Target,
        numerics: Numerics = Numerics.EXACT_INTEGERS,
        threads: int = 1,
        any_layout: bool = False,
    ) -> Problem:
        """The problem as the registered kernels see it; raises ValueError when none of them applies."""
        reason = registry.why_not_tunable(workload, target)
        if reason is not None:
            raise ValueError(f"{workload} cannot be tuned for {target.name}: {reason}")
        return cls(
            workload,
            target,
            registry.search_space(workload, target, numerics, threads, any_layout),
            tuple(registry.recommendations(workload, target, numerics, threads, any_layout)),
            lambda config: registry.kernel(config.kernel).predict(workload, config, target, threads),
        )

    @property
    def size(self) -> int:
        """Points of the space, invalid ones included: an upper bound that costs nothing."""
        total = 0
        for space in self.space.spaces:
            points = 1
            for values in space.knobs.values():
                points *= len(values)
            total += points
        return total
