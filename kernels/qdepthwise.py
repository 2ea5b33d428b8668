"""Quantized depthwise convolution on Arm, computed directly (seed 001)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import machine, qtir, requantize
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qblocks import is_arm32
from kernels.qdepthwise_nest import ORDERS, PAIRS, WIDE, Nest, Plan
from kernels.qfinish import Finish
from kernels.qgemm_plan import signedness, why_not_chained
from kernels.qkernel import QuantizedKernel, qconv_of
from kernels.qworkload import QConv2d
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Workload

TILES = (1, 2, 3, 4, 6)
BANDS = (1, 2, 4, 8)


class QuantizedDepthwise(QuantizedKernel):
    """Depthwise convolution; nothing is packed but the weights, when the model is built.

    Knobs: ``multiply`` is ``wide``, products of 16-bit numbers added to 32 bits (``smlal``), or ``pairs``,
    two products of bytes added in 16 bits first where the weights' range proves that they fit. ``stage`` is
    where the input is padded and widened: not at all (``none``), or for ``band`` rows of output right before
    these, which trades copying rows twice for locality. ``tile`` windows are in registers at a time;
    ``order`` is where the loop over groups of channels stands within a band: outside (``channels``), within
    ``rows`` or within ``windows``.
    """

    name = "qdepthwise"
    version = 1

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only depthwise convolutions with one filter a channel, on Arm with NEON."""
        if not isinstance(workload, QConv2d):
            return "not a quantized convolution"
        if not target.triple.startswith(("aarch64", "arm")):
            return f"written for Arm, not for {target.triple}"
        depthwise = workload.groups == workload.in_c == workload.out_c
        return None if depthwise else "not one filter to each channel"

    def offset(self, workload: QConv2d, config: Config) -> int:
        """128 less where bytes are multiplied and the data are unsigned."""
        return -128 if config["multiply"] == PAIRS and workload.data_dtype == "uint8" else 0

    def padded_filters(self, workload: QConv2d, config: Config, target: Target) -> int:
        """A group of four channels may reach beyond the last."""
        return workload.out_c + 3

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Both ways to multiply, copies of bands of the input or none, tiles and orders."""
        conv = qconv_of(workload)
        ways = [WIDE]
        if signedness(conv) is True and why_not_chained(conv) is None:
            ways.append(PAIRS)
        plain = max(conv.pad) == 0 and conv.in_c >= 4
        bands = [band for band in BANDS if band < conv.out_h]

        def invalid(point: Knobs) -> str | None:
            if point["stage"] == "none" and point["band"] != conv.out_h:
                return "bands are of copied rows"
            return None

        return Space(
            self.name,
            {
                "multiply": ways,
                "stage": ["none", "band"] if plain else ["band"],
                "band": [*bands, conv.out_h],
                "tile": [tile for tile in TILES if tile <= conv.out_w],
                "order": list(ORDERS),
                "requant": requantize.choices(conv, target),
            },
            invalid,
        )

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

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Multiplications, loads of data and weights, and the copy."""
        return machine.seconds(1.0)

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """The way in which sums are scaled may round twice."""
        return requantize.why_inexact(str(config["requant"]))

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """Taps of all channels, of the type that is multiplied."""
        plan = plan_of(conv, config)
        flat = weights.reshape(-1, conv.in_c).astype(plan.dtype).reshape(-1)
        return np.pad(flat, (0, plan.slack))

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The loops over bands, channels, rows and tiles."""
        conv = qconv_of(workload)
        plan = plan_of(conv, config)
        packed = conv.kh * conv.kw * conv.in_c + plan.slack
        filters = self.padded_filters(conv, config, target)
        function = qtir.QFunction(conv, name, packed, plan.dtype, filters)
        with function as args:
            Nest(plan, args, Finish(args, str(config["requant"]), is_arm32(target))).run(threads)
        return function.result()


def plan_of(conv: QConv2d, config: Config) -> Plan:
    """What a valid config means."""
    return Plan(
        conv,
        str(config["multiply"]),
        config["stage"] == "band",
        config.int("band"),
        config.int("tile"),
        str(config["order"]),
    )
