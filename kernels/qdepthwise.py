"""Quantized depthwise convolution on Arm, computed directly (seed 001)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import code_shape, machine, qtir
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qblocks import QUAD
from kernels.qdepthwise_nest import BAND, NONE, PAIRS, TOUCH, WIDE, Nest, Plan
from kernels.qfinish import Finish, finish_cycles
from kernels.qgemm_plan import signedness, why_not_chained
from kernels.qkernel import qconv_of
from kernels.qneon import NeonKernel, ways, why_not_neon
from kernels.qworkload import QConv2d
from kernels.space import Config, Knobs, Space
from kernels.target import Target, is_arm32
from kernels.workload import Workload

UNFETCHED = 3.0
"""How much longer lines from memory take that no prefetcher sees coming."""
SCATTERED = 0.4
"""How much longer lines take for each window more that is walked along with the first."""
CROWDED = 2.0
"""How much longer lines take where the rows that are used again hardly fit a cache of few ways."""
FIRST_LINE = 1.5
"""How much longer the first line of a run takes than the others."""
APART, ALONG = "apart", "along"
UNROLLED = 4000
"""Most taps in the code that are worth compiling."""
TILES = (1, 2, 3, 4, 6)
BANDS = (1, 2, 4, 8, 14)
CHUNKS = (32, 48, 64, 72, 96, 128, 192, 384)


class QuantizedDepthwise(NeonKernel):
    """Depthwise convolution; nothing is packed but the weights, when the model is built.

    Knobs: ``multiply`` is ``wide``, products of 16-bit numbers added to 32 bits (``smlal``), or ``pairs``,
    two products of bytes added in 16 bits first where the weights' range proves that they fit. With ``stage``
    ``band`` the input is padded and widened in a copy, made for ``band`` rows of output and ``chunk``
    channels right before these: the smaller, the nearer is what is copied to its use, and the more is copied
    twice. With ``none`` it is read as it lies, and windows at the edges have code of their own; with
    ``touch`` one element of each line is loaded before, line after line. ``edges`` says whether those windows
    come ``along`` with their row, or ``apart``: their lines are fetched twice then, but rows of input and of
    output are not first met in turn, which can give them the same places in a cache. ``tile`` windows are in
    registers at a time.
    """

    name = "qdepthwise"
    version = 2

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only depthwise convolutions with one filter a channel, on Arm with NEON."""
        if not isinstance(workload, QConv2d):
            return "not a quantized convolution"
        depthwise = workload.groups == workload.in_c == workload.out_c
        return why_not_neon(target) or (None if depthwise else "not one filter to each channel")

    def offset(self, workload: QConv2d, config: Config) -> int:
        """128 less where bytes are multiplied and the data are unsigned."""
        return -128 if config["multiply"] == PAIRS and workload.data_dtype == "uint8" else 0

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Both ways to multiply, copies of bands of the input or none, tiles and orders."""
        conv = qconv_of(workload)
        multiply: list[int | str] = [WIDE]
        if signedness(conv) is True and why_not_chained(conv) is None:
            multiply.append(PAIRS)
        bands = [band for band in BANDS if band < conv.out_h]

        def invalid(point: Knobs) -> str | None:
            if point["edges"] == ALONG and (point["stage"] == BAND or max(conv.pad) == 0):
                return "there are no edges"
            if point["stage"] == BAND:
                return None
            if point["band"] != conv.out_h:
                return "bands are of copied rows"
            if point["stage"] == TOUCH and point["chunk"] != conv.in_c:
                return "parts of the channels lie in no row of lines"
            unrolled = _plan(conv, point, target).unrolled
            return f"{unrolled} unrolled taps are too many" if unrolled > UNROLLED else None

        return Space(
            self.name,
            {
                "multiply": multiply,
                "stage": [NONE, TOUCH, BAND] if conv.in_c >= QUAD else [BAND],
                "band": [*bands, conv.out_h],
                "tile": [tile for tile in TILES if tile <= conv.out_w],
                "chunk": _chunks(conv),
                "edges": [APART, ALONG],
                "requant": ways(conv, target),
            },
            invalid,
        )

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Instructions of tiles and copies, and what leaves L1 between copy and use."""
        conv = qconv_of(workload)
        plan = plan_of(conv, config, target)
        taps, size = conv.kh * conv.kw, 2 if plan.dtype == "int16" else 1
        # Of eight channels; pairs are added to 32 bits together.
        products = 1.5 * taps if plan.multiply == WIDE else taps / 2 + 1.5 * -(-taps // 2)
        columns = (plan.tile - 1) * conv.stride[1] + (conv.kw - 1) * conv.dilation[1] + 1
        loads = (taps + conv.kh * min(columns, plan.tile * conv.kw)) / plan.tile
        vectors = (products + 2 * finish_cycles("high", target)) / target.fmas_per_cycle
        each = max(vectors, loads / target.loads_per_cycle) + machine.CALL_CYCLES / 2 / plan.tile
        windows = conv.n * conv.out_h * conv.out_w
        results = float(windows * conv.in_c)
        cycles = results / plan.lanes * each
        cycles += windows / plan.tile * conv.in_c / plan.chunk * 2 * machine.CALL_CYCLES
        if not plan.staged and plan.dtype != conv.data_dtype:
            cycles += results / plan.lanes * loads / 2
        copied = conv.n * plan.bands * plan.rows * plan.columns * conv.in_c * size if plan.staged else 0
        cycles += copied / 16 * 1.5 * machine.MOVE_CYCLES
        # The rows of a chunk are used again by the windows of the next row.
        near = (conv.kh * plan.columns + conv.out_w) * plan.chunk * size
        cycles += machine.stream_cycles(target, results * conv.kh * size, 2.0 * near)
        touched = results + conv.n * conv.in_h * conv.in_w * conv.in_c
        footprint = plan.rows * plan.columns * plan.chunk * size
        between = footprint * (2.0 if footprint <= target.l1_bytes / 2 else 5.0)
        cycles += (1 + UNFETCHED) * machine.stream_cycles(target, copied, between)  # written, then walked
        # Lines at the edges of chunks are fetched for both.
        split = -(-plan.chunk // target.line_bytes) * target.line_bytes / plan.chunk
        # A copy goes row by row, as prefetchers like it; windows walk through several rows at once.
        walk = UNFETCHED if plan.stage == NONE and touched > target.l2_bytes else 1.0
        if plan.stage == TOUCH:
            cycles += results * conv.kh * conv.stride[1] / target.line_bytes / target.loads_per_cycle
        else:
            walk *= 1 + SCATTERED * (plan.tile - 1)
        if plan.chunk < conv.in_c:
            # Runs of a chunk are short, and a prefetcher sees none of their first lines.
            walk += FIRST_LINE * target.line_bytes / plan.chunk
        if not plan.staged:
            # Edges apart fetch their lines again; along, rows of input and output may push each other out.
            apart = 1 + (conv.out_w - len(plan.inside[1])) / conv.out_w
            crowded = conv.kh * conv.in_w * conv.in_c > target.l1_bytes / 2
            walk *= (CROWDED if crowded else 1.0) if plan.along else apart
        cycles += split * walk * machine.stream_cycles(target, touched, target.l1_bytes + touched)
        return machine.seconds(cycles)

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """Taps of all channels, of the type that is multiplied."""
        plan = plan_of(conv, config, target)
        flat = weights.reshape(-1, conv.in_c).astype(plan.dtype).reshape(-1)
        return np.pad(flat, (0, plan.slack))

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The loops over bands, channels, rows and tiles."""
        conv = qconv_of(workload)
        plan = plan_of(conv, config, target)
        packed = conv.kh * conv.kw * conv.in_c + plan.slack
        filters = self.padded_filters(conv, config, target)
        function = qtir.QFunction(conv, name, packed, plan.dtype, filters)
        with function as args, code_shape.linked():
            Nest(plan, args, Finish(args, str(config["requant"]), is_arm32(target))).run(threads)
        return function.result()


def _chunks(conv: QConv2d) -> list[int | str]:
    """All channels, and parts of whole cache lines or of what comes near."""
    parts = [part for part in CHUNKS if part < conv.in_c and conv.in_c % part == 0]
    return [*parts, conv.in_c]


def plan_of(conv: QConv2d, config: Config, target: Target) -> Plan:
    """What a valid config means."""
    return _plan(conv, dict(config.knobs), target)


def _plan(conv: QConv2d, point: Knobs, target: Target) -> Plan:
    band, tile, chunk = (int(point[name]) for name in ("band", "tile", "chunk"))
    return Plan(
        conv,
        str(point["multiply"]),
        str(point["stage"]),
        band,
        tile,
        chunk,
        point["edges"] == ALONG,
        target.line_bytes,
    )
