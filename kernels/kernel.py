"""What every kernel family offers: a space of configs, the analysis's pick, packing, and TIR."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from kernels.layout import PLAIN, Layouts
from kernels.space import Config, Space
from kernels.target import Target
from kernels.workload import Conv2d, Workload

Array = npt.NDArray[Any]
EXACT_TOLERANCE = 1e-5
"""The ``tolerance`` of exact configs of any kernel."""


@dataclass(frozen=True)
class Resident:
    """What a kernel's analysis means to keep in one cache (``L1``, ``L2``, ``L3``), in bytes."""

    level: str
    what: str
    size: int


class Kernel(ABC):
    """A generator: (workload, config, target) -> TIR.

    The function it generates takes, in this order: the activations (``workload.data_shape``), the packed
    weights (1-D, as ``pack`` makes them), the bias if the epilogue has one (``bias_length``), the residual
    if it has one (``out_shape``), and the output (``out_shape``). All are dense, row-major float32. The
    activations of convolutions are stored as ``layouts_of(config)`` says, NCHW unless it says otherwise.
    What quantized workloads take instead is said in ``kernels/qkernel.py``.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 2
    """Raised whenever a config would generate different code: records of other versions are not reused."""
    tolerance: ClassVar[float] = EXACT_TOLERANCE
    """Largest accepted |result - reference| relative to the largest |reference|, of configs not exact."""

    @abstractmethod
    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Why this kernel cannot compute ``workload`` on ``target``, or None when it can."""

    def layouts(self, workload: Workload, target: Target) -> tuple[Layouts, ...]:
        """The layouts that it can read and write, NCHW to NCHW first; each pair has a space of its own."""
        return (PLAIN,)

    @abstractmethod
    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """All configs of one pair of ``layouts(...)``. Only called when ``why_not`` is None; never empty.

        With layouts other than ``PLAIN`` its knobs include ``layout_knobs(layouts)``. How work is split
        over ``threads`` is a knob where there are several.
        """

    def recommend(
        self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1
    ) -> Config:
        """The config that the analysis picks without measuring; a valid point of ``space``.

        The one predicted fastest, unless a family knows better.
        """
        return min(
            self.space(workload, target, layouts, threads),
            key=lambda config: self.predict(workload, config, target, threads),
        )

    @abstractmethod
    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Predicted seconds on ``threads`` cores. Only its order between configs and kernels matters."""

    def residents(self, workload: Workload, config: Config, target: Target) -> list[Resident]:
        """What the analysis behind ``config`` sized for each cache; empty when the kernel has none such."""
        return []

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """Why ``Numerics.EXACT`` excludes ``config``, or None when it does not.

        Every workload that has a kernel has an exact config of some kernel.
        """
        return None

    def tolerance_of(self, workload: Workload, config: Config) -> float:
        """Largest accepted |result - reference| of ``config`` relative to the largest |reference|."""
        return EXACT_TOLERANCE if self.why_inexact(workload, config) is None else self.tolerance

    @abstractmethod
    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """Weights of ``workload.weight_shape`` in the order the generated code reads them, 1-D."""

    def constants(
        self, workload: Workload, config: Config, target: Target, inputs: Sequence[Array]
    ) -> list[Array]:
        """What the function takes after the activations that depends on the config: the packed weights.

        ``inputs`` are as ``reference.random_inputs`` orders them.
        """
        return [self.pack(workload, config, target, inputs[1])]

    @abstractmethod
    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The ``tvm.tirx.PrimFunc`` called ``name``, its loops split over ``threads`` when above one."""


def conv_of(workload: Workload) -> Conv2d:
    """``workload`` as the convolution that it must be; raises ValueError when it is none."""
    if not isinstance(workload, Conv2d):
        raise ValueError(f"{workload} is not a convolution")
    return workload


def why_not_ungrouped(workload: Workload) -> str | None:
    """Why ``workload`` is no ungrouped float32 convolution, or None when it is one."""
    if not isinstance(workload, Conv2d):
        return "not a convolution"
    if workload.groups != 1:
        return "grouped"
    return None if workload.dtype == "float32" else f"dtype {workload.dtype} is not float32"
