"""The spaces to record: typical layers, each on one board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.target import Target
    from kernels.workload.base import Workload
    from tuner.search.problem import Problem

HOST = "host"


@dataclass(frozen=True)
class Subject:
    """One workload on one board; with ``any_layout`` its space has every pair of layouts, as in a model."""

    board: str
    layer: str
    workload: Workload
    any_layout: bool = False

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.board}-{self.layer}"

    def target(self) -> Target:
        """The target that code is generated for."""
        from kernels.target import CATALOGUE
        from worker.fleet.drivers.sim_models import SIM_MODELS
        from worker.measure.host import host_target

        return host_target() if self.board == HOST else CATALOGUE[SIM_MODELS[self.board].target]

    def problem(self) -> Problem:
        """The whole space, as a job searches it."""
        from tuner.search.problem import Problem

        return Problem.of(self.workload, self.target(), any_layout=self.any_layout)


def subjects() -> list[Subject]:
    """All spaces: of seven boards, of 10 to 750 points."""
    from kernels.workload.base import Conv2d, Gemm, QConv2d

    same, signed = (1, 1, 1, 1), {"data_dtype": "int8", "out_dtype": "int8", "data_zero": -3, "out_zero": 5}
    expand, project = Conv2d(1, 16, 28, 28, 64, 1, 1), Conv2d(1, 64, 28, 28, 16, 1, 1)
    small, thin = Conv2d(1, 32, 14, 14, 32, 3, 3, pad=same), Conv2d(1, 16, 28, 28, 16, 3, 3, pad=same)
    halved = Conv2d(1, 16, 28, 28, 32, 3, 3, stride=(2, 2), pad=same)
    first = Conv2d(1, 3, 56, 56, 16, 7, 7, stride=(2, 2), pad=(3, 3, 3, 3))
    deep = Conv2d(1, 48, 28, 28, 48, 3, 3, pad=same, groups=48)
    deep_halved = Conv2d(1, 48, 28, 28, 48, 3, 3, stride=(2, 2), pad=same, groups=48)
    late = Conv2d(1, 96, 7, 7, 64, 1, 1)
    product = Gemm(128, 128, 128)
    q_one = QConv2d(1, 14, 14, 64, 64, 1, 1, **signed)  # type: ignore[arg-type]  # fields of two types
    q_three = QConv2d(1, 14, 14, 32, 32, 3, 3, pad=same, **signed)  # type: ignore[arg-type]
    q_deep = QConv2d(1, 28, 28, 48, 48, 3, 3, pad=same, groups=48, **signed)  # type: ignore[arg-type]
    return [
        Subject("rpi4-sim", "depthwise", deep, True),
        Subject("rpi4-sim", "7x7-s2", first),
        Subject("power10-sim", "product", product),
        Subject("riscv-k1-sim", "1x1-late", late, True),
        Subject("hexagon-sim", "1x1", expand, True),
        Subject("graviton3-sim", "3x3", small),
        Subject("rpi5-sim", "1x1", project),
        Subject("power10-sim", "1x1", expand),
        Subject("riscv-k1-sim", "depthwise-s2", deep_halved, True),
        Subject("hexagon-sim", "int8-1x1", q_one),
        Subject("rpi5-sim", "product", product),
        Subject("graviton3-sim", "1x1", late),
        Subject("graviton3-sim", "depthwise", deep, True),
        Subject("rpi4-sim", "int8-depthwise", q_deep),
        Subject("riscv-k1-sim", "product", product),
        Subject("host", "3x3-s2", halved),
        Subject("rpi4-sim", "1x1", expand, True),
        Subject("power10-sim", "7x7-s2", first),
        Subject("riscv-k1-sim", "3x3", thin),
        Subject("hexagon-sim", "7x7-s2", first, True),
        Subject("rpi5-sim", "int8-depthwise", q_deep),
        Subject("graviton3-sim", "7x7-s2", first),
        Subject("power10-sim", "int8-3x3", q_three),
        Subject("hexagon-sim", "int8-3x3", q_three),
        Subject("riscv-k1-sim", "7x7-s2", first, True),
        Subject("rpi5-sim", "3x3-s2", halved),
        Subject("power10-sim", "3x3-s2", halved),
        Subject("host", "1x1", project),
        Subject("graviton3-sim", "1x1-project", project),
        Subject("hexagon-sim", "3x3", small),
        Subject("rpi4-sim", "3x3", thin),
    ]
