"""Depthwise quantized convolution on x86: channels are vectors, taps go in pairs through vpmaddwd.

A band of the input is copied as int16 with its padding; of two taps the same 16 channels are interleaved, so
that each 32-bit lane gets the sum of two products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script.ir_builder import tirx as T

from kernels import machine, requantize, tir
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qband import Band, emit_band
from kernels.qkernel import QuantizedKernel, qconv_of
from kernels.qtir import QArguments, QFunction, registers, scratch, store_filters
from kernels.qworkload import QConv2d
from kernels.qx86 import add_pairs, why_not_x86
from kernels.requantize import Requantizer
from kernels.space import Config, Space
from kernels.target import Target
from kernels.vectors import shuffle
from kernels.workload import Workload

MOST_TAPS = 64
"""All taps are unrolled."""
TAP_CYCLES, FINISH_CYCLES, COPY_CYCLES = 0.75, 8.0, 1.5
"""One tap of a vector of channels; requantizing and storing it; copying a vector of the input."""


class QuantizedDepthwiseX86(QuantizedKernel):
    """One filter a channel, computed directly.

    Knobs: ``windows`` of a row in registers at a time; ``rows`` of output a band; ``order`` is which of
    ``channels`` and ``rows`` is the outer loop within a band; ``requant`` is how sums are scaled.
    """

    name = "qdepthwise_x86"
    version = 1

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Depthwise convolutions with one filter a channel and no more than ``MOST_TAPS`` taps."""
        if not isinstance(workload, QConv2d):
            return "computes quantized convolutions"
        if not workload.groups == workload.in_c == workload.out_c:
            return "needs one filter a channel"
        if workload.kh * workload.kw > MOST_TAPS:
            return f"more than {MOST_TAPS} taps"
        return why_not_x86(target)

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """One to six windows, whole planes and bands, both orders."""
        conv = qconv_of(workload)
        parts = {max(count, threads) for count in (1, 2, 4, 7, 14, 28)}
        knobs: dict[str, list[int | str]] = {
            "windows": [count for count in (1, 2, 3, 4, 5) if count <= conv.out_w],
            "rows": sorted({-(-conv.out_h // min(count, conv.out_h)) for count in parts}),
            "order": ["channels", "rows"],
            "requant": requantize.choices(conv, target),
        }
        return Space(self.name, knobs)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Taps, requantization and copy; bands that leave L1 come from L2 once or once a tap's row."""
        plan = Plan.of(qconv_of(workload), config, target)
        conv, band = plan.conv, plan.band
        bands = conv.n * -(-conv.out_h // plan.rows)
        vectors = -(-conv.out_c // plan.lanes)
        blocks = plan.rows * -(-conv.out_w // plan.windows) * vectors
        compute = plan.rows * conv.out_w * vectors * (2 * len(plan.pairs) * 2 * TAP_CYCLES + FINISH_CYCLES)
        compute += blocks * (machine.CALL_CYCLES + 2 * len(plan.pairs))
        compute += band.elements / plan.lanes * COPY_CYCLES
        held = 2.0 * band.elements
        reads = conv.kh if plan.channels_outside else 1
        compute += machine.stream_cycles(target, held * reads, held)
        return machine.seconds(bands * compute / min(threads, bands))

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """Sums are exact; some ways to scale them are not."""
        return requantize.why_inexact(str(config["requant"]))

    def padded_filters(self, workload: QConv2d, config: Config, target: Target) -> int:
        """Whole vectors."""
        return Plan.of(workload, config, target).filters

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """[vector of channels][pair of taps][lower, upper half][channel][tap of the pair], int16."""
        plan = Plan.of(conv, config, target)
        taps = np.zeros((2 * len(plan.pairs), plan.filters), np.int16)
        taps[: conv.kh * conv.kw, : conv.out_c] = weights.reshape(-1, conv.out_c)
        vectors = taps.reshape(len(plan.pairs), 2, -1, plan.lanes).transpose(2, 0, 3, 1)
        halves = np.stack([vectors[:, :, half] for half in plan.halves], axis=2)
        return np.ascontiguousarray(halves).reshape(-1)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Bands, rows, vectors of channels and blocks of windows around the taps."""
        plan = Plan.of(qconv_of(workload), config, target)
        packed = 2 * len(plan.pairs) * plan.filters
        function = QFunction(plan.conv, name, packed, "int16", plan.filters)
        with function as args:
            _Nest(plan, args).emit(threads)
        return function.result()


@dataclass(frozen=True)
class Plan:
    """A config as numbers."""

    conv: QConv2d
    windows: int
    rows: int
    channels_outside: bool
    requant: str
    bits: int

    @classmethod
    def of(cls, conv: QConv2d, config: Config, target: Target) -> Plan:
        """Read a config."""
        outside, requant = config["order"] == "channels", str(config["requant"])
        return cls(conv, config.int("windows"), config.int("rows"), outside, requant, target.vector_bits)

    @property
    def lanes(self) -> int:
        """Channels in a vector of int16."""
        return self.bits // 16

    @property
    def filters(self) -> int:
        """Channels, filled up to whole vectors."""
        return -(-self.conv.out_c // self.lanes) * self.lanes

    @property
    def band(self) -> Band:
        """The copy; the last vector of channels reads beyond the last pixel."""
        return Band(self.conv, self.rows, "int16", 0, self.lanes)

    @property
    def pairs(self) -> list[list[tuple[int, int]]]:
        """The taps (row, column) two by two; an odd one is with itself, where the weight is zero."""
        taps = [(row, column) for row in range(self.conv.kh) for column in range(self.conv.kw)]
        taps += taps[-1:] * (len(taps) % 2)
        return [taps[at : at + 2] for at in range(0, len(taps), 2)]

    @property
    def halves(self) -> tuple[list[int], list[int]]:
        """The channels that vpunpcklwd and vpunpckhwd take of a vector: four of each eight."""
        eights = range(0, self.lanes, 8)
        low, high = ([at + start + i for at in eights for i in range(4)] for start in (0, 4))
        return low, high


class _Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args

    def emit(self, threads: int) -> None:
        plan, conv = self.plan, self.conv
        bands, vectors = -(-conv.out_h // plan.rows), plan.filters // plan.lanes
        with tir.loop(conv.n * bands, threads) as number:
            image, first = T.Bind(number // bands), T.Bind(number % bands * plan.rows)
            if bands * plan.rows != conv.out_h:
                first = T.Bind(tir.least(first, conv.out_h - plan.rows))  # the last ends with the plane
            copy = scratch(plan.band.elements, "int16")
            emit_band(plan.band, self.args.data, copy, image, first, plan.lanes)
            out = T.Bind((image * conv.out_h + first) * (conv.out_w * conv.out_c))
            if plan.channels_outside:
                with tir.loop(vectors) as vector, tir.loop(plan.rows) as row:
                    self._row(copy, out, row, T.Bind(vector * plan.lanes))
            else:
                with tir.loop(plan.rows) as row, tir.loop(vectors) as vector:
                    self._row(copy, out, row, T.Bind(vector * plan.lanes))

    def _row(self, copy: Any, out: Any, row: Any, channel: Any) -> None:
        """One row of one vector of channels, in blocks of windows as even as can be."""
        blocks = -(-self.conv.out_w // self.plan.windows)
        small, larger = divmod(self.conv.out_w, blocks)
        for size, count, base in ((small + 1, larger, 0), (small, blocks - larger, larger * (small + 1))):
            if count:
                with tir.loop(count) as number:
                    self._block(copy, out, row, T.Bind(base + number * size), size, channel)

    def _block(self, copy: Any, out: Any, row: Any, column: Any, size: int, channel: Any) -> None:
        plan, conv, lanes = self.plan, self.conv, self.plan.lanes
        half = lanes // 2
        sums = registers(size * lanes)
        slots = [[tir.vector((i * 2 + j) * half, half) for j in range(2)] for i in range(size)]
        start = T.Bind(plan.band.window(row, column) + channel)
        weights = T.Bind(channel * (2 * len(plan.pairs)))
        for number, taps in enumerate(plan.pairs):
            at = weights + number * 2 * lanes
            factors = [T.Bind(self.args.weights[tir.vector(at + j * lanes, lanes)]) for j in range(2)]
            for i in range(size):
                offsets = [plan.band.window(0, i) + plan.band.tap(*tap) for tap in taps]
                values = [T.Bind(copy[tir.vector(start + offset, lanes)]) for offset in offsets]
                for j, channels in enumerate(plan.halves):
                    mixed = shuffle(values, [lane for c in channels for lane in (c, lanes + c)])
                    total = add_pairs(mixed, factors[j], plan.bits)
                    if number:
                        total = sums[slots[i][j]] + total
                    tir.store(sums, total, slots[i][j])
        order = list(np.argsort([c for channels in plan.halves for c in channels]))
        parts = [[int(lane) for lane in order[at : at + half]] for at in (0, half)]
        biases = [T.Bind(self.args.bias[tir.vector(channel + at, half)]) for at in (0, half)]
        requantize = Requantizer(self.args, channel, half, plan.requant, 2)
        for i in range(size):
            mixed = [sums[slot] for slot in slots[i]]
            natural = [shuffle(mixed, part) + bias for part, bias in zip(parts, biases, strict=True)]
            result = T.Bind(requantize(*natural))
            pixel = row * conv.out_w + column + i
            at = T.Bind(out + pixel * conv.out_c + channel)
            store_filters(self.args.out, result, at, channel, conv.out_c, plan.filters, lanes)
