"""Depthwise quantized convolution by dot products of four taps, on POWER10 and Hexagon.

The bytes of four taps are interleaved channel by channel, so that an instruction adds four products to each
of a vector's sums. The input is copied with its padding, a band of rows at a time; taps that are missing to
four have weights of zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.emit import machine, tir
from kernels.emit.hvx_memory import LINE
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import shuffle
from kernels.int8 import requantize
from kernels.int8.band import Band, emit_band
from kernels.int8.dot.finish import Finish
from kernels.int8.dot.instructions import WAYS, ways, why_not_dots
from kernels.int8.kernel import QuantizedKernel
from kernels.int8.tir import QArguments, store_filters
from kernels.int8.x86.instructions import FORK_CYCLES, Multiply
from kernels.int8.x86.plan import TiledPlan
from kernels.isa.hexagon import HEXAGON
from kernels.kernel import Array, KnobValues
from kernels.knobs import KnobSet
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

UNIT = 4
"""Taps of a dot product, and vectors of sums whose channels a vector of bytes has."""
MOST_TAPS = 64
"""All taps are unrolled."""
SHUFFLES, FINISH_CYCLES = 2.0, 4.0
"""Vectors that are interleaved for each dot product, and what scaling and storing a vector of sums takes."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``multiply`` is the way (``instructions.py``), ``windows`` are computed together, ``rows`` the rows of
    output worked on at a time, ``requant`` is how sums are scaled."""

    multiply: str
    windows: int
    rows: int
    requant: str


@dataclass(frozen=True)
class Plan(TiledPlan):
    """A config as numbers: blocks of four vectors of channels, the last perhaps of fewer."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why threads cannot share this out, or None when they can."""
        return "fewer bands than threads" if self.threads > self.bands else None

    @property
    def vectors(self) -> int:
        """Vectors of channels of a block."""
        return UNIT

    @property
    def filters(self) -> int:
        """Channels, filled up to whole vectors."""
        return ceil_div(self.conv.out_c, self.lanes) * self.lanes

    @property
    def padded_filters(self) -> int:
        """The same: a group is one channel."""
        return self.filters

    @property
    def way(self) -> Multiply:
        """How data and weights are multiplied."""
        return WAYS[self.knobs.multiply]

    @property
    def offset(self) -> int:
        """128 where int8 data are multiplied as uint8."""
        return self.way.offset(self.conv)

    @property
    def band(self) -> Band:
        """Where the windows lie. A block reads whole vectors of bytes, so up to one past the end."""
        return Band(self.conv, self.knobs.rows, self.way.data, self.offset, UNIT * self.lanes)

    @property
    def bands(self) -> int:
        """Bands of all images."""
        return self.conv.n * ceil_div(self.conv.out_h, self.knobs.rows)

    @property
    def quads(self) -> int:
        """Dot products of a sum."""
        return ceil_div(self.conv.taps, UNIT)

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return self.filters * self.quads * UNIT

    @property
    def packed_dtype(self) -> str:
        """The type of weights that are multiplied."""
        return self.way.packed

    def pack_centered(self, weights: Array) -> Array:
        """[block][four taps][vector of the block][channel][tap], filled with zeros."""
        taps, count = self.quads * UNIT, self.conv.out_c
        filled = np.zeros((taps, self.filters), self.packed_dtype)
        filled[: self.conv.taps, :count] = weights.reshape(self.conv.taps, count)
        ordered = filled.reshape(self.quads, UNIT, self.filters)
        parts = [
            ordered[:, :, first * self.lanes : (first + vectors * number) * self.lanes]
            .reshape(self.quads, UNIT, number, vectors * self.lanes)
            .transpose(2, 0, 3, 1)
            .reshape(-1)
            for first, vectors, number in self.filter_tiles()
        ]
        return np.ascontiguousarray(np.concatenate(parts))

    def cycles(self) -> float:
        """Interleaving, products, scaling and the copy; of them the order counts."""
        conv, rows = self.conv, self.knobs.rows
        vectors = self.filters // self.lanes
        each = self.quads * (SHUFFLES + self.way.cycles + 1 / self.knobs.windows) + FINISH_CYCLES
        blocks = ceil_div(rows * conv.out_w, self.knobs.windows) * ceil_div(vectors, UNIT)
        compute = rows * conv.out_w * vectors * each + blocks * machine.CALL_CYCLES
        copied = self.band.elements * 8 / self.bits * machine.move_cycles(self.target)
        read = machine.stream_cycles(self.target, self.band.elements * conv.taps, self.band.elements)
        shared = ceil_div(self.bands, self.threads) * (compute + copied + read)
        return shared + (FORK_CYCLES if self.threads > 1 else 0)

    def body(self, args: QArguments) -> None:
        """Bands, blocks of channels, blocks of windows."""
        conv, rows = self.conv, self.knobs.rows
        a_image = ceil_div(conv.out_h, rows)
        finish = Finish(args, self.knobs.requant, self.bits, self.target)
        with tir.loop(self.bands, self.threads) as number:
            image, first = T.Bind(number // a_image), T.Bind(number % a_image * rows)
            if a_image * rows != conv.out_h:
                # The last band ends with the last row and computes some rows again.
                first = T.Bind(tir.least(first, conv.out_h - rows))
            slack = LINE if self.target.isa is HEXAGON else 0
            source = tir.scratch(self.band.elements, self.way.data, slack=slack)
            emit_band(self.band, args.data, source, image, first, self.bits // 8)
            out = T.Bind((image * conv.out_h + first) * (conv.out_w * conv.out_c))
            for begin, vectors, count in self.filter_tiles():
                with tir.loop(count) as tile:
                    at = T.Bind(begin + tile * vectors)

                    def block(windows: int, number: Index, at: Index = at, vectors: int = vectors) -> None:
                        self._block(args, finish, source, out, at, vectors, windows, number)

                    tir.blocks(rows * conv.out_w, self.knobs.windows, block)

    def _block(
        self,
        args: QArguments,
        finish: Finish,
        source: Buffer,
        out: Index,
        first: Index,
        vectors: int,
        windows: int,
        number: Index,
    ) -> None:
        """Results of the ``vectors`` of channels from vector ``first`` on, of ``windows`` from ``number``."""
        conv, lanes, band = self.conv, self.lanes, self.band
        channel = T.Bind(first * lanes)
        starts = [T.Bind(band.numbered(number + i) + channel) for i in range(windows)]
        sums = [[args.start(channel + j * lanes, lanes) for j in range(vectors)] for _ in starts]
        taps = [band.tap(at // conv.kw, at % conv.kw) for at in range(conv.taps)]
        taps += [taps[-1]] * (-conv.taps % UNIT)
        size = vectors * lanes * UNIT
        for quad in range(self.quads):
            base = channel * (self.quads * UNIT) + quad * size
            packed = [
                T.Bind(args.weights[tir.vector(base + j * lanes * UNIT, lanes * UNIT)])
                for j in range(vectors)
            ]
            for i, start in enumerate(starts):
                data = self._interleaved(source, [start + at for at in taps[quad * UNIT : (quad + 1) * UNIT]])
                for j in range(vectors):
                    sums[i][j] = T.Bind(self.way.add(sums[i][j], data[j], packed[j], self.bits))
        for i in range(windows):
            for j in range(0, vectors, 2):
                together, begin = min(2, vectors - j), channel + j * lanes
                if together == 2:
                    result = finish.pair(begin)(sums[i][j : j + 2])
                else:
                    (result,) = finish.four(begin)(sums[i][j : j + 1])
                at = T.Bind(out + (number + i) * conv.out_c + begin)
                store_filters(args.out, result, at, begin, conv.out_c, self.filters, together * lanes)

    def _interleaved(self, source: Buffer, at: list[Index]) -> list[Vector]:
        """Vectors of the bytes of four taps, channel by channel."""
        size = UNIT * self.lanes
        one, two, three, four = (source[tir.vector(each, size)] for each in at)
        pairs = [i + s for i in range(size) for s in (0, size)]

        def halves(low: Vector, high: Vector) -> list[Vector]:
            return [shuffle([low, high], pairs[:size]), shuffle([low, high], pairs[size:])]

        doubles = [i + s for i in range(0, size, 2) for s in (0, 1, size, size + 1)]
        found = []
        for low, high in zip(halves(one, two), halves(three, four), strict=True):
            found += [shuffle([low, high], doubles[:size]), shuffle([low, high], doubles[size:])]
        return found


class QuantizedDotDepthwise(QuantizedKernel):
    """One filter a channel, four taps at a time; its knobs are those of ``Knobs``."""

    name = "qdot_depthwise"
    version = 2
    plan_type = Plan

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Depthwise convolutions of no more than ``MOST_TAPS`` taps whose weights are bytes."""
        if not workload.is_depthwise:
            return "needs one filter a channel"
        if workload.taps > MOST_TAPS:
            return f"more than {MOST_TAPS} taps"
        if reason := why_not_dots(target):
            return reason
        return None if _ways(workload, target) else "its weights less their zero point do not fit int8"

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """One to four windows, whole planes and bands."""
        bands = (min(count, workload.out_h) for count in (1, 2, 4, 7, 14, 28))
        return {
            "multiply": _ways(workload, target),
            "windows": [count for count in (1, 2, 3, 4) if count <= workload.out_w],
            "rows": sorted({ceil_div(workload.out_h, count) for count in bands}),
            "requant": requantize.choices(workload, target),
        }


def _ways(conv: QConv2d, target: Target) -> list[int | str]:
    return [way.name for way in ways(conv, target) if way.unit == UNIT]
