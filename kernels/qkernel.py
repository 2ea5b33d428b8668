"""What kernels of quantized workloads have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from kernels.kernel import Array, Kernel
from kernels.layout import PLAIN, Layouts
from kernels.qconstants import check_scale, check_weights, folded_bias
from kernels.qworkload import QConv2d
from kernels.space import Config
from kernels.target import Target
from kernels.workload import Workload


class QuantizedKernel(Kernel):
    """A generator for quantized convolutions.

    The function takes the activations, the packed weights (1-D), the bias, multiplier and shift (int32, all
    as ``constants`` makes them; the last two not with int32 output), and the output. Configs are exact, to
    the last bit, unless ``why_inexact`` says otherwise; those may be one quantum off.
    """

    tolerance = 1.0

    def tolerance_of(self, workload: Workload, config: Config) -> float:
        """In quanta: none for exact configs."""
        return 0.0 if self.why_inexact(workload, config) is None else self.tolerance

    def recommend(
        self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1
    ) -> Config:
        """The exact config that is predicted fastest."""
        return min(
            self.space(workload, target, layouts, threads),
            key=lambda config: (
                self.why_inexact(workload, config) is not None,
                self.predict(workload, config, target, threads),
            ),
        )

    def offset(self, workload: QConv2d, config: Config) -> int:
        """What the code adds to each element of the data (and to the padding) before it multiplies."""
        return 0

    def padded_filters(self, workload: QConv2d, config: Config, target: Target) -> int:
        """The length of the bias (and of scales, one a channel) that the code reads."""
        return workload.out_c

    def fill(self, conv: QConv2d, config: Config, target: Target, values: Array) -> Array:
        """Bias, multipliers or shifts, one a filter (int32), as the code reads them: zeros at the end."""
        return np.pad(values, (0, self.padded_filters(conv, config, target) - values.size))

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """The weights less their zero point, packed; ValueError for weights the workload excludes."""
        conv = qconv_of(workload)
        check_weights(conv, weights)
        return self.pack_centered(conv, config, target, weights.astype(np.int32) - conv.weight_zero)

    @abstractmethod
    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """``weight - weight_zero`` (int32, ``weight_shape``) in the order the code reads them, 1-D."""

    def constants(
        self, workload: Workload, config: Config, target: Target, inputs: Sequence[Array]
    ) -> list[Array]:
        """Packed weights, bias with the zero points folded in, multiplier and shift.

        Raises ValueError for constants that the workload excludes.
        """
        conv = qconv_of(workload)
        weights, bias, *scale = inputs[1:]
        packed = self.pack(workload, config, target, weights)
        arrays = [folded_bias(conv, weights, bias, self.offset(conv, config))]
        if scale:
            check_scale(conv, *scale)
            arrays += scale
        shared = () if conv.per_channel else (1, 2)
        filled = (a if at in shared else self.fill(conv, config, target, a) for at, a in enumerate(arrays))
        return [packed, *filled]


def qconv_of(workload: Workload) -> QConv2d:
    """``workload`` as the quantized convolution that it must be; raises ValueError when it is none."""
    if not isinstance(workload, QConv2d):
        raise ValueError(f"{workload} is not a quantized convolution")
    return workload
