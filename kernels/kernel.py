"""What every kernel family offers: a space of configs, and a plan of each: its cost, packing and code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy.typing as npt

from kernels.emit import machine
from kernels.emit.types import PrimFunc
from kernels.knobs import KnobSet, knobs_of
from kernels.layout import PLAIN, Layouts
from kernels.space import Config, Knobs, Space, Value
from kernels.target import Target
from kernels.workload.base import Workload

Array = npt.NDArray[Any]
W = TypeVar("W", bound=Workload)
KnobValues = Mapping[str, Sequence[Value]]
"""The values of each knob."""
EXACT_TOLERANCE = 1e-5
"""The ``tolerance`` of exact configs of any kernel."""


@dataclass(frozen=True)
class Resident:
    """What a kernel's analysis means to keep in one cache (``L1``, ``L2``, ``L3``), in bytes."""

    level: str
    what: str
    size: int


@dataclass(frozen=True)
class Plan(ABC, Generic[W]):
    """What one config implies for one workload on one target, its loops split over so many threads.

    The function it emits takes, in this order: the activations (``workload.data_shape``), the packed weights
    (1-D, as ``pack`` makes them), and what ``FloatPlan`` or ``QuantizedPlan`` says; last comes the output.
    """

    workload: W
    target: Target
    threads: int
    knobs: KnobSet

    @classmethod
    def of(cls, workload: W, config: Config, target: Target, threads: int, **more: Any) -> Self:
        """Read a config; KeyError or ValueError when it has not the family's knobs."""
        return cls(workload, target, threads, knobs_of(cls).of(config), **more)

    def why_not(self) -> str | None:
        """Why no code can be made of it, or None when it can."""
        return None

    @abstractmethod
    def cycles(self) -> float:
        """Predicted cycles until the last thread is done. Only their order matters."""

    def pack(self, weights: Array) -> Array:
        """Weights of ``workload.weight_shape`` in the order the code reads them, 1-D.

        TypeError for a workload that has no weights, or several: its plan says what to take by ``constants``.
        """
        raise TypeError(f"{self.workload} has not one array of weights")

    def constants(self, inputs: Sequence[Array]) -> list[Array]:
        """What the function takes after the activations that depends on the config: the packed weights.

        ``inputs`` are as ``reference.random_inputs`` orders them.
        """
        return [self.pack(inputs[1])]

    @abstractmethod
    def emit(self, name: str) -> PrimFunc:
        """The function, called ``name``."""

    def residents(self) -> list[Resident]:
        """What the analysis behind it sized for each cache; empty when there is none such."""
        return []


class Kernel(ABC, Generic[W]):
    """A generator: (workload, config, target) -> a plan, which makes code and tells what that should take."""

    name: ClassVar[str]
    version: ClassVar[int] = 2
    """Raised whenever a config would generate different code: records of other versions are not reused."""
    tolerance: ClassVar[float] = EXACT_TOLERANCE
    """Largest accepted |result - reference| relative to the largest |reference|, of configs not exact."""
    workload_type: type[W]
    plan_type: type[Plan[W]]

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Why this kernel cannot compute ``workload`` on ``target``, or None when it can."""
        if not isinstance(workload, self.workload_type):
            return f"computes {self.workload_type.kind}, not {workload.kind}"
        return self.why_unfit(workload, target)

    def why_unfit(self, workload: W, target: Target) -> str | None:
        """``why_not`` of a workload of its types."""
        return None

    def layouts(self, workload: W, target: Target) -> tuple[Layouts, ...]:
        """The layouts that it can read and write, NCHW to NCHW first where it can do that; each pair has a
        space of its own."""
        return (PLAIN,)

    @abstractmethod
    def knobs(self, workload: W, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """The values of each knob, neighbours differing little; the plan's ``why_not`` excludes points.

        How work is split over ``threads`` is a knob where there are several.
        """

    def plan(self, workload: W, config: Config, target: Target, threads: int = 1) -> Plan[W]:
        """What ``config`` implies."""
        return self.plan_type.of(workload, config, target, threads)

    def space(self, workload: W, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """All configs of one pair of ``layouts(...)``. Only called when ``why_not`` is None; never empty."""

        def invalid(point: Knobs) -> str | None:
            return self.plan(workload, Config.of(self.name, layouts, **point), target, threads).why_not()

        return Space(self.name, self.knobs(workload, target, layouts, threads), invalid, layouts)

    def recommend(self, workload: W, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Config:
        """The config that the analysis picks without measuring; a valid point of ``space``.

        The one predicted fastest, unless a family knows better.
        """
        return min(
            self.space(workload, target, layouts, threads),
            key=lambda config: self.predict(workload, config, target, threads),
        )

    def suited(self, workload: W, config: Config, target: Target, threads: int, weights: Array) -> Config:
        """What the analysis picks in place of ``config``, its pick, for these ``weights``."""
        return config

    def why_inexact(self, workload: W, config: Config) -> str | None:
        """Why ``Numerics.EXACT`` excludes ``config``, or None when it does not.

        Every workload that has a kernel has an exact config of some kernel.
        """
        return None

    def exact_part(self, workload: W, space: Space) -> Space:
        """The points of its ``space`` that are exact; the part may be empty."""

        def invalid(point: Knobs) -> str | None:
            reason = self.why_inexact(workload, space.config(point))
            return f"not exact: {reason}" if reason else space.invalid(point)

        return replace(space, invalid=invalid)

    def tolerance_of(self, workload: W, config: Config) -> float:
        """Largest accepted |result - reference| of ``config`` relative to the largest |reference|."""
        return EXACT_TOLERANCE if self.why_inexact(workload, config) is None else self.tolerance

    def predict(self, workload: W, config: Config, target: Target, threads: int = 1) -> float:
        """Predicted seconds on ``threads`` cores. Only its order between configs and kernels matters."""
        return machine.seconds(target, self.plan(workload, config, target, threads).cycles())

    def residents(self, workload: W, config: Config, target: Target) -> list[Resident]:
        """``Plan.residents`` of ``config``."""
        return self.plan(workload, config, target).residents()

    def pack(self, workload: W, config: Config, target: Target, weights: Array) -> Array:
        """``Plan.pack`` of ``config``."""
        return self.plan(workload, config, target).pack(weights)

    def constants(self, workload: W, config: Config, target: Target, inputs: Sequence[Array]) -> list[Array]:
        """``Plan.constants`` of ``config``."""
        return self.plan(workload, config, target).constants(inputs)

    def build(self, workload: W, config: Config, target: Target, threads: int, name: str) -> PrimFunc:
        """``Plan.emit`` of ``config``."""
        return self.plan(workload, config, target, threads).emit(name)
