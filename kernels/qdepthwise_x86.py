"""Depthwise quantized convolution on x86: channels are vectors, taps go in pairs through vpmaddwd.

A band of the input is copied as int16 with its padding, two rows together: a row's element beside that of the
row below. So a 32-bit lane gets the sum of two products with one instruction and no shuffle. Rows of output
begin with the upper or with the lower row of such a pair, which has its own order of weights (``phase``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import machine, requantize, tir
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qband import columns_inside
from kernels.qkernel import QuantizedKernel, qconv_of
from kernels.qtir import QArguments, QFunction, const, convert, registers, scratch, store_filters
from kernels.qworkload import QConv2d
from kernels.qx86 import add_pairs, narrow, scaling_at, why_not_x86
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.vectors import pieces, shuffle
from kernels.workload import Workload

MOST_TAPS = 64
"""All taps are unrolled."""
MOST_VECTORS = 12
"""Of channels that are copied at a time."""
PAIR_CYCLES, FINISH_CYCLES, COPY_CYCLES = 0.65, 6.6, 2.1
"""A pair of taps of half a vector; requantizing and storing a vector; copying one of the input."""


def why_not_depthwise(workload: Workload, target: Target) -> str | None:
    """Why ``workload`` is no depthwise convolution that is computed directly on x86, or None when it is."""
    if not isinstance(workload, QConv2d):
        return "computes quantized convolutions"
    if not workload.groups == workload.in_c == workload.out_c:
        return "needs one filter a channel"
    if workload.kh * workload.kw > MOST_TAPS:
        return f"more than {MOST_TAPS} taps"
    return why_not_x86(target)


class QuantizedDepthwiseX86(QuantizedKernel):
    """One filter a channel, computed directly.

    Knobs: ``windows`` of a row in registers at a time; ``rows`` of output a band, and ``chunk`` vectors of
    channels, are copied at a time; ``requant`` is how sums are scaled.
    """

    name = "qdepthwise_x86"
    version = 2

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Depthwise convolutions with one filter a channel and no more than ``MOST_TAPS`` taps."""
        return why_not_depthwise(workload, target)

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """One to six windows, whole planes and bands, chunks that divide the vectors of channels."""
        conv = qconv_of(workload)
        vectors = -(-conv.out_c // (target.vector_bits // 16))
        knobs: dict[str, list[int | str]] = {
            "windows": [count for count in (1, 2, 3, 4, 5, 6) if count <= conv.out_w],
            "rows": sorted({-(-conv.out_h // min(count, conv.out_h)) for count in (1, 2, 4, 7, 14, 28)}),
            "chunk": [count for count in range(1, MOST_VECTORS + 1) if vectors % count == 0],
            "requant": requantize.choices(conv, target),
        }

        def invalid(point: Knobs) -> str | None:
            parts = -(-conv.out_h // int(point["rows"])) * (vectors // int(point["chunk"]))
            most = conv.out_h * vectors
            return "fewer parts than threads" if conv.n * parts < min(threads, conv.n * most) else None

        return Space(self.name, knobs, invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Taps, requantization and copy; bands that leave L1 come from L2."""
        plan = Plan.of(qconv_of(workload), config, target)
        conv = plan.conv
        parts = conv.n * -(-conv.out_h // plan.rows) * (plan.filters // (plan.lanes * plan.chunk))
        pairs = sum(len(plan.pairs(phase)) for phase in plan.phases) / len(plan.phases)
        compute = plan.rows * conv.out_w * plan.chunk * (2 * pairs * PAIR_CYCLES + FINISH_CYCLES)
        blocks = plan.rows * -(-conv.out_w // plan.windows) * plan.chunk
        compute += blocks * (machine.CALL_CYCLES + 2 * pairs)
        compute += plan.chunk * plan.plane / plan.lanes * COPY_CYCLES
        held = 2.0 * plan.chunk * plan.plane
        compute += machine.stream_cycles(target, 2 * held, held)
        # Of each pixel as many lines are read as a chunk of its channels touches.
        pixels = plan.height * 2 * min(conv.in_w, plan.columns)
        lines = 1 + (plan.lanes * plan.chunk - 1) / target.line_bytes
        compute += 2 * machine.stream_cycles(target, pixels * lines * target.line_bytes, target.l2_bytes)
        return machine.seconds(parts * compute / min(threads, parts))

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """Sums are exact; some ways to scale them are not."""
        return requantize.why_inexact(str(config["requant"]))

    def fill(self, conv: QConv2d, config: Config, target: Target, values: Array) -> Array:
        """Whole vectors, each as lower and upper half (``Plan.halves``)."""
        plan = Plan.of(conv, config, target)
        padded = np.pad(values, (0, plan.filters - values.size)).reshape(-1, plan.lanes)
        return np.ascontiguousarray(padded[:, plan.halves[0] + plan.halves[1]]).reshape(-1)

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """[vector of channels][phase][pair of taps][lower, upper half][channel][tap of the pair], int16."""
        plan = Plan.of(conv, config, target)
        taps = np.zeros((conv.kh, conv.kw, plan.filters), np.int16)
        taps[:, :, : conv.out_c] = weights.reshape(conv.kh, conv.kw, conv.out_c)
        none = np.zeros(plan.filters, np.int16)
        pairs = [
            [none if row is None else taps[row, pair.column] for row in pair.rows]
            for phase in plan.phases
            for pair in plan.pairs(phase)
        ]
        vectors = np.array(pairs).reshape(len(pairs), 2, -1, plan.lanes).transpose(2, 0, 3, 1)
        halves = np.stack([vectors[:, :, half] for half in plan.halves], axis=2)
        return np.ascontiguousarray(halves).reshape(-1)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Bands, rows, vectors of channels and blocks of windows around the taps."""
        plan = Plan.of(qconv_of(workload), config, target)
        packed = 2 * plan.all_pairs * plan.filters
        function = QFunction(plan.conv, name, packed, "int16", plan.filters)
        with function as args:
            _Nest(plan, args).emit(threads)
        return function.result()


@dataclass(frozen=True)
class Pair:
    """Taps that are multiplied together: the filter's ``rows`` (None for no tap) in one of its columns.

    ``above`` is how many pairs of rows the copy has them below the pair that the window begins in.
    """

    above: int
    column: int
    rows: tuple[int | None, int | None]


@dataclass(frozen=True)
class Plan:
    """A config as numbers."""

    conv: QConv2d
    windows: int
    rows: int
    chunk: int
    requant: str
    bits: int

    @classmethod
    def of(cls, conv: QConv2d, config: Config, target: Target) -> Plan:
        """Read a config."""
        windows, rows, chunk = (config.int(name) for name in ("windows", "rows", "chunk"))
        return cls(conv, windows, rows, chunk, str(config["requant"]), target.vector_bits)

    @property
    def lanes(self) -> int:
        """Channels in a vector of int16."""
        return self.bits // 16

    @property
    def filters(self) -> int:
        """Channels, filled up to whole vectors."""
        return -(-self.conv.out_c // self.lanes) * self.lanes

    @property
    def phases(self) -> range:
        """In which row of a pair windows can begin: 0, or 0 and 1."""
        return range(1 + self.conv.stride[0] % 2)

    def pairs(self, phase: int) -> list[Pair]:
        """The taps two by two, column by column."""
        conv = self.conv
        place = {phase + row * conv.dilation[0]: row for row in range(conv.kh)}
        used = sorted({at // 2 for at in place})
        both = [(above, (place.get(2 * above), place.get(2 * above + 1))) for above in used]
        return [Pair(above, column, rows) for column in range(conv.kw) for above, rows in both]

    @property
    def all_pairs(self) -> int:
        """Pairs of taps of all phases."""
        return sum(len(self.pairs(phase)) for phase in self.phases)

    @property
    def halves(self) -> tuple[list[int], list[int]]:
        """The channels that vpunpcklwd and vpunpckhwd take of a vector: four of each eight."""
        eights = range(0, self.lanes, 8)
        low, high = ([at + start + i for at in eights for i in range(4)] for start in (0, 4))
        return low, high

    @property
    def columns(self) -> int:
        """Columns of the copy."""
        conv = self.conv
        return (conv.out_w - 1) * conv.stride[1] + (conv.kw - 1) * conv.dilation[1] + 1

    @property
    def height(self) -> int:
        """Pairs of rows of the copy."""
        conv = self.conv
        return -(-((self.rows - 1) * conv.stride[0] + (conv.kh - 1) * conv.dilation[0] + 1) // 2)

    @property
    def pitch(self) -> int:
        """Elements of a pair of rows of one vector of channels: [column][lower, upper half][channel][row]."""
        return 2 * self.columns * self.lanes

    @property
    def plane(self) -> int:
        """Elements of the copy of one vector of channels."""
        return self.height * self.pitch


class _Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args

    def emit(self, threads: int) -> None:
        """Bands of rows and chunks of channels: copied, then computed, so that the copy is in L1."""
        plan, conv = self.plan, self.conv
        bands, chunks = -(-conv.out_h // plan.rows), plan.filters // (plan.lanes * plan.chunk)
        with tir.loop(conv.n * bands * chunks, threads) as number:
            image, part = T.Bind(number // (bands * chunks)), T.Bind(number % (bands * chunks))
            first, start = T.Bind(part // chunks * plan.rows), T.Bind(part % chunks * plan.chunk)
            if bands * plan.rows != conv.out_h:
                first = T.Bind(tir.least(first, conv.out_h - plan.rows))  # the last ends with the plane
            copy = scratch(plan.chunk * plan.plane, "int16")
            out = T.Bind((image * conv.out_h + first) * (conv.out_w * conv.out_c))
            self._copy(copy, image, first, start)
            with tir.loop(plan.chunk) as index:
                vector, plane = T.Bind(start + index), T.Bind(index * plan.plane)
                self._rows(copy, plane, out, vector)

    def _rows(self, copy: Any, plane: Any, out: Any, vector: Any) -> None:
        """All rows of a band, for one vector of channels."""
        period = len(self.plan.phases)
        whole, rest = divmod(self.plan.rows, period)
        with tir.loop(whole) as turn:
            for phase in self.plan.phases:
                self._row(copy, plane, out, T.Bind(turn * period + phase), phase, vector)
        if rest:
            self._row(copy, plane, out, tir.index(whole * period), 0, vector)

    def _copy(self, copy: Any, image: Any, first: Any, start: Any) -> None:
        """Fill ``copy`` with what rows from ``first`` on use, of vectors of channels from ``start`` on."""
        plan, conv = self.plan, self.conv
        with tir.loop(plan.height) as number:
            source = T.Bind(first * conv.stride[0] + number * 2 - conv.pad[0])
            at = T.Bind(number * plan.pitch)
            starts = [
                T.Bind(((image * conv.in_h + source + row) * conv.in_w - conv.pad[1]) * conv.in_c)
                for row in range(2)
            ]
            upper = tirx.all(source >= 0, source < conv.in_h)
            lower = tirx.all(source >= -1, source < conv.in_h - 1)

            def pair(*starts: Any, at: Any = at) -> None:
                self._copy_pair(copy, at, starts, start)

            tir.choose(
                upper,
                lambda: tir.choose(lower, lambda: pair(*starts), lambda: pair(starts[0], None)),
                lambda: tir.choose(lower, lambda: pair(None, starts[1]), lambda: pair(None, None)),
            )

    def _copy_pair(self, copy: Any, at: Any, starts: tuple[Any, ...], first: Any) -> None:
        """Copy a chunk of channels of two rows that begin at ``starts``; None is a row of padding."""
        plan, conv, lanes = self.plan, self.conv, self.plan.lanes
        left, right = columns_inside(conv.pad[1], 1, plan.columns, conv.in_w)
        zero = const(conv.data_zero, "int16", lanes)

        def fill(column: int, count: int) -> None:
            with tir.loop(plan.chunk * (count > 0)) as index, tir.loop(count * 2) as i:
                target = at + index * plan.plane + column * 2 * lanes + i * lanes
                tir.store(copy, zero, tir.vector(target, lanes))

        if starts == (None, None):
            fill(0, plan.columns)
            return
        fill(0, left)
        with tir.loop(right - left) as x, tir.loop(plan.chunk) as index:
            offset = T.Bind((x + left) * conv.in_c + (first + index) * lanes)
            target = T.Bind(at + index * plan.plane + (x + left) * (2 * lanes))

            def take(count: int) -> None:
                rows = [zero if start is None else self._load(start + offset, count) for start in starts]
                for half, channels in enumerate(plan.halves):
                    mixed = shuffle(rows, [lane for c in channels for lane in (c, lanes + c)])
                    tir.store(copy, mixed, tir.vector(target + half * lanes, lanes))

            rest = conv.in_c % lanes
            whole = (first + index + 1) * lanes <= conv.in_c if rest else None
            tir.choose(whole, lambda: take(lanes), lambda: take(rest))
        fill(right, plan.columns - right)

    def _load(self, at: Any, count: int) -> Any:
        """``count`` elements of the data as int16, and anything up to whole vectors."""
        lanes, data = self.plan.lanes, self.args.data
        if count == lanes:
            return T.Bind(convert(data[tir.vector(at, lanes)], "int16", lanes))
        parts = pieces(count)
        width = parts[0][1]
        loaded = [T.Bind(data[tir.vector(at + start, width)]) for start, width in parts]
        loaded *= -(-lanes // (width * len(loaded)))  # a shuffle has no more lanes than it is given
        places = [lane if lane < width else lane + 2 * width - count for lane in range(count)]
        return T.Bind(convert(shuffle(loaded, places + [0] * (lanes - count)), "int16", lanes))

    def _row(self, copy: Any, plane: Any, out: Any, row: Any, phase: int, vector: Any) -> None:
        """One row of one vector of channels, in blocks of windows as even as can be."""
        plan, conv = self.plan, self.conv
        begin = T.Bind(plane + row * conv.stride[0] // 2 * plan.pitch)
        blocks = -(-conv.out_w // plan.windows)
        small, larger = divmod(conv.out_w, blocks)
        for size, count, base in ((small + 1, larger, 0), (small, blocks - larger, larger * (small + 1))):
            if count:
                with tir.loop(count) as number:
                    column = T.Bind(base + number * size)
                    start = T.Bind(begin + column * (conv.stride[1] * 2 * plan.lanes))
                    pixel = T.Bind(row * conv.out_w + column)
                    self._block(copy, start, out, pixel, phase, size, vector)

    def _block(self, copy: Any, start: Any, out: Any, pixel: Any, phase: int, size: int, vector: Any) -> None:
        """``size`` windows, the first of which begins at ``start``."""
        plan, conv, lanes = self.plan, self.conv, self.plan.lanes
        half = lanes // 2
        channel = T.Bind(vector * lanes)
        sums = registers(size * lanes)
        slots = [[tir.vector((i * 2 + j) * half, half) for j in range(2)] for i in range(size)]
        skipped = sum(len(plan.pairs(before)) for before in range(phase))
        weights = T.Bind((vector * plan.all_pairs + skipped) * (2 * lanes))
        for j in range(2):
            bias = T.Bind(self.args.bias[tir.vector(channel + j * half, half)])
            for i in range(size):
                tir.store(sums, bias, slots[i][j])
            for number, pair in enumerate(plan.pairs(phase)):
                factor = T.Bind(self.args.weights[tir.vector(weights + (number * 2 + j) * lanes, lanes)])
                for i in range(size):
                    across = pair.column * conv.dilation[1] + i * conv.stride[1]
                    at = start + (pair.above * plan.pitch + across * 2 * lanes + j * lanes)
                    product = add_pairs(copy[tir.vector(at, lanes)], factor, plan.bits)
                    tir.store(sums, sums[slots[i][j]] + product, slots[i][j])
        self._finish(out, pixel, channel, sums, slots)

    def _finish(self, out: Any, pixel: Any, channel: Any, sums: Any, slots: list[list[Any]]) -> None:
        """Requantize and store."""
        plan, conv, lanes = self.plan, self.conv, self.plan.lanes
        half = lanes // 2
        scaled: list[list[Any]] = []
        for j in range(2):
            values = [sums[slot[j]] for slot in slots]
            if conv.scale_length:
                place = channel + j * half if conv.per_channel else None
                multiply = scaling_at(self.args, place, plan.requant, half)
                values = [multiply(value) for value in values]
            scaled.append([T.Bind(value) for value in values])
        for i, (lower, upper) in enumerate(zip(*scaled, strict=True)):
            if conv.scale_length:
                result = narrow(conv, lower, upper, plan.bits)
            else:
                order = plan.halves[0] + plan.halves[1]
                result = shuffle([lower, upper], [order.index(c) for c in range(lanes)])
            at = T.Bind(out + (pixel + i) * conv.out_c + channel)
            store_filters(self.args.out, result, at, channel, conv.out_c, plan.filters, lanes)
