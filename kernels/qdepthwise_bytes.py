"""Depthwise quantized convolution on x86 for weights of 7 bits: taps go in pairs through vpmaddubsw.

Twice as many channels a vector as ``qdepthwise_x86.py`` has, which takes any weights. Products are added in
int16, as many taps as fit once the middle of their range is subtracted, and then in pairs into int32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script.ir_builder import tirx as T

from kernels import machine, requantize, tir
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qband import Band, emit_band
from kernels.qdepthwise_x86 import why_not_depthwise
from kernels.qkernel import QuantizedKernel, qconv_of
from kernels.qtir import QArguments, QFunction, const, registers, reinterpret, scratch
from kernels.qworkload import QConv2d
from kernels.qx86 import WAYS, add_pairs, add_products, narrow_bytes, scaling_at
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.vectors import shuffle, split
from kernels.workload import Workload

UNIT = 64
"""The constant that restores the subtracted middles is in units of this, so that it fits int16."""
SPAN = 2 * (32767 - UNIT)
"""How far the sums of a group of taps may be apart; their middle is moved by less than ``UNIT``."""
PAIR_CYCLES, FINISH_CYCLES, COPY_CYCLES = 1.6, 20.0, 2.6
"""A pair of taps of a vector; adding up, requantizing and storing one; copying one of the input."""
CONSTANT_CYCLES = 40.0
"""Loading the constants of a vector, and what depends on its scales alone."""
Tap = tuple[int, int]


class QuantizedDepthwiseBytes(QuantizedKernel):
    """One filter a channel, computed directly on bytes.

    Knobs: ``windows`` of a row in registers at a time; ``rows`` of output a band; ``order`` is which of
    ``channels`` and ``rows`` is the outer loop within a band; ``requant`` is how sums are scaled.
    """

    name = "qdepthwise_bytes"
    version = 1

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Depthwise convolutions with one filter a channel, whose products of two taps fit int16."""
        reason = why_not_depthwise(workload, target)
        return reason or WAYS["bytes"].why_not(qconv_of(workload), target)

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """One to four windows, whole planes and bands, both orders."""
        conv = qconv_of(workload)
        knobs: dict[str, list[int | str]] = {
            "windows": [count for count in (1, 2, 3, 4) if count <= conv.out_w],
            "rows": sorted({-(-conv.out_h // min(count, conv.out_h)) for count in (1, 2, 4, 7, 14, 28, 56)}),
            "order": ["channels", "rows"],
            "requant": requantize.choices(conv, target),
        }

        def invalid(point: Knobs) -> str | None:
            bands = conv.n * -(-conv.out_h // int(point["rows"]))
            return "fewer bands than threads" if bands < min(threads, conv.n * conv.out_h) else None

        return Space(self.name, knobs, invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Taps, requantization and copy; bands that leave L1 come from L2 for each row of taps."""
        plan = Plan.of(qconv_of(workload), config, target)
        conv, band = plan.conv, plan.band
        bands = conv.n * -(-conv.out_h // plan.rows)
        vectors = plan.rows * conv.out_w * plan.vectors
        compute = vectors * (len(plan.pairs) * PAIR_CYCLES + FINISH_CYCLES)
        compute += vectors / plan.windows * (machine.CALL_CYCLES + 2 * len(plan.pairs))
        compute += plan.vectors * (1 if plan.channels_outside else plan.rows) * CONSTANT_CYCLES
        compute += band.elements / plan.lanes * COPY_CYCLES
        row = conv.kh * band.pitch
        held = band.elements if plan.channels_outside else row
        compute += machine.stream_cycles(target, plan.rows * row, held)
        return machine.seconds(bands * compute / min(threads, bands))

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """Sums are exact; some ways to scale them are not."""
        return requantize.why_inexact(str(config["requant"]))

    def offset(self, workload: QConv2d, config: Config) -> int:
        """128 where int8 data are multiplied as uint8."""
        return WAYS["bytes"].offset(workload)

    def fill(self, conv: QConv2d, config: Config, target: Target, values: Array) -> Array:
        """Vector by vector, in the order of ``Plan.quarters``."""
        plan = Plan.of(conv, config, target)
        order = [lane for quarter in plan.quarters for lane in quarter]
        return np.concatenate([plan.part(values, vector)[order] for vector in range(plan.vectors)])

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """[vector of channels][lower, upper half], each: [pair][channel][tap of the pair] as bytes, then what
        is added to each group, and the constant that takes it back, as int16."""
        plan = Plan.of(conv, config, target)
        taps = weights.reshape(conv.kh, conv.kw, conv.out_c)
        none = np.zeros(conv.out_c, np.int32)
        groups = [
            np.array([[none if tap is None else taps[tap] for tap in pair] for pair in group])
            for group in plan.groups
        ]
        ends = [255 * np.array([np.minimum(g, 0).sum((0, 1)), np.maximum(g, 0).sum((0, 1))]) for g in groups]
        middles = np.array(
            [end.sum(0) // 2 * (plan.taps(group) > 2) for end, group in zip(ends, plan.groups, strict=True)]
        )
        middles[plan.centered[:1]] -= middles.sum(0) % UNIT
        parts: list[Array] = []
        for vector in range(plan.vectors):
            for half in plan.halves:
                for group in groups:
                    bytes_ = plan.part(group, vector)[..., half].transpose(0, 2, 1)
                    parts.append(np.ascontiguousarray(bytes_.astype(np.int8)).reshape(-1).view(np.int16))
                constants = [*-middles, middles.sum(0) // UNIT]
                parts += [plan.part(constant, vector)[half].astype(np.int16) for constant in constants]
        return np.concatenate(parts)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Bands, rows, vectors of channels and blocks of windows around the taps."""
        plan = Plan.of(qconv_of(workload), config, target)
        function = QFunction(plan.conv, name, plan.vectors * plan.packed, "int16", plan.vectors * plan.lanes)
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
        """Channels in a vector of bytes."""
        return self.bits // 8

    @property
    def vectors(self) -> int:
        """Vectors of channels; the last ends with the channels and may overlap the one before."""
        return -(-self.conv.out_c // self.lanes)

    def part(self, values: Array, vector: int) -> Array:
        """The last axis as one vector reads it, with zeros at the end where there are too few channels."""
        first = max(0, min(vector * self.lanes, self.conv.out_c - self.lanes))
        part = values[..., first : first + self.lanes]
        return np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, self.lanes - part.shape[-1])])

    @property
    def band(self) -> Band:
        """The copy; a vector of channels can read beyond the last pixel."""
        uint8 = WAYS["bytes"]
        return Band(self.conv, self.rows, uint8.data, uint8.offset(self.conv), self.lanes)

    @property
    def pairs(self) -> list[tuple[Tap, Tap | None]]:
        """The taps two by two: rows of a column, and the columns of an odd last row."""
        kh, kw = self.conv.kh, self.conv.kw
        found: list[tuple[Tap, Tap | None]] = [
            ((row, column), (row + 1, column)) for column in range(kw) for row in range(0, kh - 1, 2)
        ]
        if kh % 2:
            last = kh - 1
            found += [((last, column), (last, column + 1)) for column in range(0, kw - 1, 2)]
            found += [((last, kw - 1), None)] * (kw % 2)
        return found

    @staticmethod
    def taps(group: list[tuple[Tap, Tap | None]]) -> int:
        """How many taps a group has."""
        return sum(tap is not None for pair in group for tap in pair)

    @property
    def groups(self) -> list[list[tuple[Tap, Tap | None]]]:
        """Pairs that are added in int16."""
        most = SPAN // (255 * max(1, *map(abs, self.conv.centered_range)))
        each = max(1, most // 2)
        return [self.pairs[at : at + each] for at in range(0, len(self.pairs), each)]

    @property
    def centered(self) -> list[int]:
        """The groups whose middle is subtracted: two taps fit as they are."""
        return [at for at, group in enumerate(self.groups) if self.taps(group) > 2]

    @property
    def halves(self) -> tuple[list[int], list[int]]:
        """The channels that vpunpcklbw and vpunpckhbw take of a vector: eight of each sixteen."""
        low, high = (
            [at + start + i for at in range(0, self.lanes, 16) for i in range(8)] for start in (0, 8)
        )
        return low, high

    @property
    def quarters(self) -> list[list[int]]:
        """The channels of each vector of int32: vpunpcklwd and vpunpckhwd of each half."""
        eights = range(0, self.lanes // 2, 8)
        return [
            [half[at + start + i] for at in eights for i in range(4)]
            for half in self.halves
            for start in (0, 4)
        ]

    @property
    def packed(self) -> int:
        """Elements (int16) of a vector's weights and constants."""
        return self.lanes * (len(self.pairs) + len(self.groups) + 1)


class _Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.conv, self.args, self.band = plan, plan.conv, args, plan.band

    def emit(self, threads: int) -> None:
        """Bands of rows: copied, then computed."""
        plan, conv = self.plan, self.conv
        bands = -(-conv.out_h // plan.rows)
        with tir.loop(conv.n * bands, threads) as number:
            image, first = T.Bind(number // bands), T.Bind(number % bands * plan.rows)
            if bands * plan.rows != conv.out_h:
                first = T.Bind(tir.least(first, conv.out_h - plan.rows))  # the last ends with the plane
            self.copy = scratch(self.band.elements, self.band.dtype)
            emit_band(self.band, self.args.data, self.copy, image, first, plan.lanes)
            out = T.Bind((image * conv.out_h + first) * (conv.out_w * conv.out_c))
            if plan.channels_outside:
                with tir.loop(plan.vectors) as vector, tir.loop(plan.rows) as row:
                    self._row(out, row, vector)
            else:
                with tir.loop(plan.rows) as row, tir.loop(plan.vectors) as vector:
                    self._row(out, row, vector)

    def _row(self, out: Any, row: Any, vector: Any) -> None:
        """One row of one vector of channels, in blocks of windows as even as can be."""
        conv, lanes = self.conv, self.plan.lanes
        channel = T.Bind(tir.least(vector * lanes, max(0, conv.out_c - lanes)))
        blocks = -(-conv.out_w // self.plan.windows)
        small, larger = divmod(conv.out_w, blocks)
        for size, count, base in ((small + 1, larger, 0), (small, blocks - larger, larger * (small + 1))):
            if count:
                with tir.loop(count) as number:
                    column = T.Bind(base + number * size)
                    start = T.Bind(self.band.window(row, column) + channel)
                    target = T.Bind(out + (row * conv.out_w + column) * conv.out_c + channel)
                    self._block(start, target, size, vector)

    def _block(self, start: Any, target: Any, size: int, vector: Any) -> None:
        """``size`` windows, the first of which begins at ``start``."""
        plan, conv, lanes = self.plan, self.conv, self.plan.lanes
        wide = lanes // 4
        sums = registers(size * lanes)
        slots = [[tir.vector((i * 4 + j) * wide, wide) for j in range(4)] for i in range(size)]
        for j in range(4):
            bias = T.Bind(self.args.bias[tir.vector(vector * lanes + j * wide, wide)])
            for i in range(size):
                tir.store(sums, bias, slots[i][j])
        for half in range(2):
            self._half(sums, [slot[2 * half : 2 * half + 2] for slot in slots], start, vector, half)
        scaled: list[list[Any]] = []
        for j in range(4):
            values = [sums[slot[j]] for slot in slots]
            if conv.scale_length:
                place = vector * lanes + j * wide if conv.per_channel else None
                multiply = scaling_at(self.args, place, plan.requant, wide)
                values = [multiply(value) for value in values]
            scaled.append([T.Bind(value) for value in values])
        for i, quarters in enumerate(zip(*scaled, strict=True)):
            if conv.scale_length:
                result = narrow_bytes(conv, quarters, plan.bits)
            else:
                order = [lane for quarter in plan.quarters for lane in quarter]
                result = shuffle(quarters, [order.index(lane) for lane in range(lanes)])
            count = min(lanes, conv.out_c)
            for offset, width, piece in split(result, count, lanes):
                tir.store(self.args.out, piece, tir.vector(target + i * conv.out_c + offset, width))

    def _half(self, sums: Any, slots: list[list[Any]], start: Any, vector: Any, half: int) -> None:
        """Add the taps of half a vector to the sums, two groups of taps at a time."""
        plan, words = self.plan, self.plan.lanes // 2
        weights = T.Bind(vector * plan.packed + half * (plan.packed // 2))
        constants = weights + len(plan.pairs) * words
        terms: list[tuple[Callable[[], list[Any]], int]] = []
        first = 0
        for number, group in enumerate(plan.groups):

            def group_term(number: int = number, first: int = first) -> list[Any]:
                return self._group(start, weights + first * words, constants, number, half, len(slots))

            terms.append((group_term, 1))
            first += len(group)
        if plan.centered:

            def restored() -> list[Any]:
                return [self._words(constants + len(plan.groups) * words)] * len(slots)

            terms.append((restored, UNIT))
        for at in range(0, len(terms), 2):
            one, other = terms[at], terms[at + 1] if at + 1 < len(terms) else None
            lower = one[0]()
            upper = other[0]() if other else lower
            factors = _alternating(one[1], other[1] if other else 0, words)
            for slot, a, b in zip(slots, lower, upper, strict=True):
                for j in range(2):
                    lanes = [eight + 4 * j + i for eight in range(0, words, 8) for i in range(4)]
                    mixed = shuffle([a, b], [lane for c in lanes for lane in (c, words + c)])
                    tir.store(sums, sums[slot[j]] + add_pairs(mixed, factors, plan.bits), slot[j])

    def _group(
        self, start: Any, weights: Any, constants: Any, number: int, half: int, size: int
    ) -> list[Any]:
        """The sums of one group of taps in int16, less their middle, for each window."""
        plan, words = self.plan, self.plan.lanes // 2
        totals: list[Any] = []
        for at, pair in enumerate(plan.groups[number]):
            factor = reinterpret(self._words(weights + at * words), "int8", plan.lanes)
            factor = T.Bind(factor)
            products = []
            for i in range(size):
                offsets = [self.band.window(0, i) + self.band.tap(*(tap or pair[0])) for tap in pair]
                data = [T.Bind(self.copy[tir.vector(start + offset, plan.lanes)]) for offset in offsets]
                lanes = [lane for c in plan.halves[half] for lane in (c, plan.lanes + c)]
                products.append(add_products(shuffle(data, lanes), factor, plan.bits))
            totals = [T.Bind(a + b) for a, b in zip(totals, products, strict=True)] if at else products
        if number in plan.centered:
            middle = self._words(constants + number * words)
            totals = [T.Bind(total + middle) for total in totals]
        return totals

    def _words(self, at: Any) -> Any:
        """A vector of the packed constants."""
        return T.Bind(self.args.weights[tir.vector(at, self.plan.lanes // 2)])


def _alternating(one: int, other: int, lanes: int) -> Any:
    """int16 lanes ``one, other, one, other...``"""
    both = const(one | other << 16, "int32", lanes // 2)
    return reinterpret(both, "int16", lanes)
