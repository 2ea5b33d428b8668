"""What a config of ``qdepthwise_bytes`` means: pairs and groups of taps, vectors of channels, constants."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from kernels.kernel import Array
from kernels.qband import Band
from kernels.qconstants import SMALL_SHIFT
from kernels.qworkload import QConv2d
from kernels.qx86 import CROSSED, INT16, WAYS
from kernels.space import Knobs
from kernels.target import Target

NONE, BAND = "none", "band"
"""Windows are read where they lie, or from a padded copy."""
CHANNELS, ROWS, PIXELS = "channels", "rows", "pixels"
"""What the outermost loop is over; ``pixels``: blocks of windows before the channels of each."""
HIGH = "high"
"""The way to requantize that has constants made for it."""
SPAN = INT16[1] - INT16[0]
"""How far the sums of a group of taps may be apart, once their middle is subtracted."""
Tap = tuple[int, int]
Pair = tuple[Tap, Tap | None]
"""Taps whose data are interleaved; one alone meets a weight of zero."""


@dataclass(frozen=True)
class Product:
    """One vpmaddubsw: the interleaved data of ``pair`` by the weights of ``taps``, zero where None."""

    pair: Pair
    taps: tuple[Tap | None, Tap | None]


@dataclass(frozen=True)
class Part:
    """``count`` vectors of channels from number ``first`` on, of which each holds ``windows`` windows."""

    first: int
    count: int
    windows: int


@dataclass(frozen=True)
class Plan:
    """A config as numbers."""

    conv: QConv2d
    stage: str
    windows: int
    rows: int
    order: str
    requant: str
    bits: int

    @classmethod
    def of(cls, conv: QConv2d, point: Knobs, target: Target) -> Plan:
        """Read a config."""
        windows, rows = int(point["windows"]), int(point["rows"])
        stage, order, requant = (str(point[name]) for name in ("stage", "order", "requant"))
        return cls(conv, stage, windows, rows, order, requant, target.vector_bits)

    @property
    def lanes(self) -> int:
        """Bytes of a vector."""
        return self.bits // 8

    # Vectors of channels

    @property
    def parts(self) -> list[Part]:
        """The vectors of all channels; the last of each kind ends with the channels and may overlap the one
        before. Half a vector of channels, and what does not fill one, takes two windows at a time."""
        channels, lanes, half = self.conv.out_c, self.lanes, self.lanes // 2
        if channels < half:
            return [Part(0, 1, 1)]
        if channels < lanes:
            return [Part(0, -(-channels // half), 2)]
        rest = channels % lanes
        whole = channels // lanes + (rest > half)
        return [Part(0, whole, 1), *[Part(whole, 1, 2)] * (0 < rest <= half)]

    @property
    def vectors(self) -> int:
        """All vectors."""
        return sum(part.count for part in self.parts)

    def lanes_of(self, values: Array) -> Array:
        """The last axis (channels) as [vector, lane]; zeros where there are too few channels."""
        channels, vectors = self.conv.out_c, []
        for part in self.parts:
            width = self.lanes // part.windows
            last = max(0, channels - width)
            for number in range(part.count):
                first = min(number * width, last) if part.first == 0 else last
                some = values[..., first : first + width]
                missing = [(0, 0)] * (some.ndim - 1) + [(0, width - some.shape[-1])]
                vectors.append(np.concatenate([np.pad(some, missing)] * part.windows, axis=-1))
        return np.stack(vectors, axis=-2)

    # Taps

    @property
    def together(self) -> bool:
        """Whether two products fit int16."""
        return 2 * 255 * max(map(abs, self.conv.centered_range)) <= INT16[1]

    @property
    def pairs(self) -> list[Pair]:
        """The taps two by two: rows of a column, and the columns of an odd last row."""
        kh, kw = self.conv.kh, self.conv.kw
        found: list[Pair] = [
            ((row, column), (row + 1, column)) for column in range(kw) for row in range(0, kh - 1, 2)
        ]
        if kh % 2:
            last = kh - 1
            found += [((last, column), (last, column + 1)) for column in range(0, kw - 1, 2)]
            found += [((last, kw - 1), None)] * (kw % 2)
        return found

    @property
    def products(self) -> list[Product]:
        """Each pair at once, or each of its taps alone where two products may not fit."""
        if self.together:
            return [Product(pair, pair) for pair in self.pairs]
        alone = [Product(pair, (pair[0], None)) for pair in self.pairs]
        others = [Product(pair, (None, pair[1])) if pair[1] else None for pair in self.pairs]
        return [product for both in zip(alone, others, strict=True) for product in both if product]

    @property
    def groups(self) -> list[list[Product]]:
        """Products that are added in int16."""
        most = SPAN // (255 * max(1, *map(abs, self.conv.centered_range)))
        each = max(1, most // (2 if self.together else 1))
        return [self.products[at : at + each] for at in range(0, len(self.products), each)]

    @property
    def centered(self) -> list[int]:
        """The groups whose middle is subtracted: one product fits as it is."""
        return [at for at, group in enumerate(self.groups) if len(group) > 1]

    # Lanes after unpacking

    @property
    def halves(self) -> tuple[list[int], list[int]]:
        """The lanes that vpunpcklbw and vpunpckhbw take of a vector: eight of each sixteen."""
        low, high = (
            [at + start + i for at in range(0, self.lanes, 16) for i in range(8)] for start in (0, 8)
        )
        return low, high

    @property
    def quarters(self) -> list[list[int]]:
        """The lanes of each vector of int32: vpunpcklwd and vpunpckhwd of each half."""
        eights = range(0, self.lanes // 2, 8)
        return [
            [half[at + start + i] for at in eights for i in range(4)]
            for half in self.halves
            for start in (0, 4)
        ]

    # Constants

    @property
    def packed(self) -> int:
        """Elements (int16) of a vector's weights and middles."""
        return self.lanes * (len(self.products) + len(self.centered))

    @property
    def kinds(self) -> int:
        """How many constants of a lane each of the int32 buffers holds."""
        return 2 if self.requant == HIGH else 1

    def fill(self, values: Array) -> Array:
        """int32, one a channel, as [vector][kind][lane in the order of ``quarters``], other kinds 0."""
        order = [lane for quarter in self.quarters for lane in quarter]
        rows = self.lanes_of(values)[:, order]
        return np.stack([rows] + [np.zeros_like(rows)] * (self.kinds - 1), axis=1)

    def scales(self, multiplier: Array, shift: Array) -> tuple[Array, Array]:
        """Both as ``fill`` makes them. With ``high`` the other kinds are the multipliers one lane lower, and
        what int16 lanes are multiplied by, with 15 bits behind the point.

        The upper half of the product by a multiplier has ``shift - 1`` bits behind the point. All but seven
        are shifted out; then a result that fits a byte and the bits that decide how it is rounded fit int16.
        """
        if self.requant != HIGH:
            return self.fill(multiplier), self.fill(shift)
        multipliers, shifts = self.fill(multiplier), self.fill(np.maximum(shift, SMALL_SHIFT))
        multipliers[:, 1, :-1] = multipliers[:, 0, 1:]
        crossed = np.arange(self.lanes) // 4 * 4 + np.tile(CROSSED, self.lanes // 4)
        shifts[:, 0] = shifts[:, 0, crossed]
        factors = (1 << 16 - np.minimum(shifts[:, 0], 8)).astype(np.int16)
        # vpackssdw takes four lanes of each of two quarters in turn.
        factors = factors.reshape(-1, 2, 2, self.lanes // 16, 4).swapaxes(2, 3).reshape(len(factors), -1)
        shifts[:, 1, : self.lanes // 2] = np.ascontiguousarray(factors).view(np.int32)
        shifts[:, 0] = np.maximum(shifts[:, 0] - 8, 0)
        return multipliers, shifts

    def middles(self, taps: Array) -> Array:
        """The middle of what each centered group adds up to, (groups, channels), of (kh, kw, channels)."""
        ends = []
        for at in self.centered:
            weights = np.array([taps[tap] for product in self.groups[at] for tap in product.taps if tap])
            ends.append(255 * np.array([np.minimum(weights, 0).sum(0), np.maximum(weights, 0).sum(0)]))
        middles: Array = np.array(ends, np.int64).reshape(-1, 2, self.conv.out_c).sum(1) // 2
        return middles

    def pack(self, taps: Array) -> Array:
        """[vector][lower, upper half], each: [product][lane][tap of the product] as bytes, then what is added
        to each centered group, int16; of (kh, kw, channels)."""
        none = np.zeros(self.conv.out_c, np.int32)
        weights = np.array([[taps[tap] if tap else none for tap in p.taps] for p in self.products])
        bytes_ = self.lanes_of(weights).astype(np.int8)  # product, tap, vector, lane
        added = self.lanes_of(-self.middles(taps)).astype(np.int16)  # group, vector, lane
        parts: list[Array] = []
        for vector in range(self.vectors):
            for half in self.halves:
                some = bytes_[:, :, vector, half].transpose(0, 2, 1)
                parts.append(np.ascontiguousarray(some).reshape(-1).view(np.int16))
                parts.append(added[:, vector, half].reshape(-1))
        return np.concatenate(parts)

    # What is read

    @property
    def offset(self) -> int:
        """What is added to the data, as bytes are multiplied unsigned."""
        return WAYS["bytes"].offset(self.conv)

    @property
    def staged(self) -> bool:
        """Whether there is a copy."""
        return self.stage == BAND

    @property
    def band(self) -> Band:
        """The copy; where channels are too few, a vector reads beyond the last pixel."""
        return Band(self.conv, self.rows, "uint8", self.offset, self.lanes)

    @property
    def step(self) -> tuple[int, int]:
        """Rows and columns of what is read between neighbouring windows."""
        return self.band.step if self.staged else self.conv.stride

    @property
    def pitch(self) -> int:
        """Elements between rows of what is read."""
        return self.band.pitch if self.staged else self.conv.in_w * self.conv.in_c

    @property
    def inside(self) -> tuple[range, range]:
        """Rows and columns of windows that do not reach into the padding; with a copy, all do not."""
        conv = self.conv
        if self.staged:
            return range(conv.out_h), range(conv.out_w)
        across = (conv.pad[1], conv.stride[1], (conv.kw - 1) * conv.dilation[1], conv.in_w, conv.out_w)
        return (
            _inside(conv.pad[0], conv.stride[0], (conv.kh - 1) * conv.dilation[0], conv.in_h, conv.out_h),
            _inside(*across),
        )

    def runs(self, edge: bool) -> list[tuple[range, int]]:
        """The windows of a row in blocks as even as can be, those apart that reach into the padding: of
        neighbours that have the same code the first, and how many they are. Rows at an ``edge`` have small
        blocks, so that there is less code."""
        at_once = self.parts[-1].windows if edge else self.windows
        across, found = self.inside[1], list[tuple[range, int]]()
        before, behind = range(across.start), range(across.stop, self.conv.out_w)
        for part in filter(None, (before, across, behind)):
            count = -(-len(part) // at_once)
            small, larger = divmod(len(part), count)
            sizes = [small + 1] * larger + [small] * (count - larger)
            starts = itertools.accumulate(sizes, initial=part.start)
            blocks = [range(start, start + size) for start, size in zip(starts, sizes, strict=False)]
            if part is across:
                runs = [[block for block in blocks if len(block) == size] for size in sorted({*sizes})[::-1]]
                found += [(same[0], len(same)) for same in runs]
            else:
                found += [(block, 1) for block in blocks]
        return found

    @property
    def unrolled(self) -> int:
        """Products in the code."""
        down = len(self.inside[0])
        rows = (bool(down), False), (self.conv.out_h - down, True)
        windows = sum(count * len(block) for count, edge in rows for block, _ in self.runs(edge))
        return windows * len(self.products) * len(self.parts)


def _inside(before: int, stride: int, reach: int, extent: int, count: int) -> range:
    """The range of windows i of ``count`` with all of i * stride - before + (0 to reach) in ``extent``."""
    first = min(count, -(-before // stride))
    return range(first, max(first, min(count, (extent - 1 + before - reach) // stride + 1)))
