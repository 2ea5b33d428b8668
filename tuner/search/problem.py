"""What a search strategy is given: the space of one workload and what is known of it without measuring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernels import registry
from kernels.layout import Layouts
from kernels.numerics import Numerics
from kernels.space import Config, SearchSpace
from kernels.target import Target
from kernels.workload.base import Workload
from tuner.layouts import race as layout_race


@dataclass(frozen=True)
class Problem:
    """What is searched: a workload on a target, its space, and what is known without measuring.

    ``seeds`` are the kernels' recommendations, one a family, the analysis's pick first; ``predict`` gives
    predicted seconds; only their order matters. A space that another tool recorded has no
    ``workload``, no ``target`` and no seeds, and one prediction for all points.
    """

    workload: Workload | None
    target: Target | None
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

    def bounds(self, best_s: Mapping[Layouts, float]) -> dict[Layouts, float]:
        """The seconds that a config of each pair of layouts must beat to be of use.

        ``best_s`` are those of the best config of each pair, infinite where none ran.
        """
        return dict(best_s) if self.workload is None else layout_race.bounds(self.workload, best_s)

    @property
    def size(self) -> int:
        """Points of the space, invalid ones included: an upper bound that costs nothing."""
        return sum(space.size for space in self.space.spaces)
