"""Convolution Slicing Analysis: tile sizes, tile order and their cost (seed 003, section 4.1).

Names follow the paper: ``IN``, ``FS`` and ``OUT`` are the input tensor, the filter set and the output; an
``IN`` tile holds ``n_win`` windows and an ``FS`` tile ``n_f`` filters, both of ``n_c`` channels; ``k2`` and
``k3`` tiles stay in the second and third cache. Where the paper divides to count tiles or sets, the count is
rounded up: the last, smaller tile is a tile too.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, replace

from kernels.arithmetic import ceil_div
from kernels.target import Target
from kernels.workload.base import Conv2d

ALPHA = BETA = GAMMA = 0.9
"""Share of L1, L2 and L3 that tiles may fill (section 7.1)."""
NEAR = 0.5
"""Share of L1 that tiles of the moving kind may fill to stay there: results, which lie a plane apart, take
places beside them."""
FLOAT_BYTES = 4
INPUT_STATIONARY, WEIGHT_STATIONARY = "is", "ws"


@dataclass(frozen=True)
class Slicing:
    """A tiling strategy for one convolution: an order, and how many channels and tiles at each level.

    The paper packs every ``IN`` tile. One that is not ``packed`` is read where it lies, in parts of a row for
    each channel and row of the filter, and takes up whole cache lines there.
    """

    conv: Conv2d
    target: Target
    n_f: int
    n_win: int
    order: str
    n_c: int
    k2: int
    k3: int
    packed: bool = True

    @property
    def in_tile(self) -> int:
        """|IN^T| in bytes (equation 1)."""
        if not self.packed:
            return self.n_c * self.conv.kh * (self.n_win * FLOAT_BYTES + self.target.line_bytes)
        return self.n_win * self.n_c * self.conv.taps * FLOAT_BYTES

    @property
    def fs_tile(self) -> int:
        """|FS^T| in bytes (equation 1)."""
        return self.n_f * self.n_c * self.conv.taps * FLOAT_BYTES

    @property
    def out_tile(self) -> int:
        """|OUT^T| in bytes (equation 1)."""
        return self.n_win * self.n_f * FLOAT_BYTES

    @property
    def in_tiles(self) -> int:
        """#IN^T (equation 3)."""
        return ceil_div(self.conv.windows, self.n_win)

    @property
    def fs_tiles(self) -> int:
        """#FS^T (equation 3)."""
        return ceil_div(self.conv.out_c, self.n_f)

    @property
    def k2_halvings(self) -> int:
        """How often all tiles were halved to get k2."""
        return _halvings(self._roles()[1][0], self.k2)

    @property
    def k3_halvings(self) -> int:
        """How often all tiles were halved to get k3."""
        return _halvings(self._roles()[0][0], self.k3)

    @property
    def in_l1(self) -> int:
        """Bytes that are to stay in L1 (equation 2): one tile of each kind."""
        return self.in_tile + self.fs_tile + self.out_tile

    @property
    def in_l2(self) -> int:
        """Bytes that are to stay in L2 (equation 4): the stationary tile, k2 moving ones, their results."""
        (_, still), (_, moving) = self._roles()
        return still + self.k2 * (moving + self.out_tile)

    @property
    def in_l3(self) -> int:
        """Bytes that are to stay in L3 (equation 5): k3 stationary tiles, k2 moving ones, their results."""
        (_, still), (_, moving) = self._roles()
        return self.k3 * still + self.k2 * moving + self.k2 * self.k3 * self.out_tile

    @property
    def fits_l1(self) -> bool:
        """Equation 2: one tile of each kind fits in L1."""
        return self.in_l1 <= self.target.l1_bytes * ALPHA

    @property
    def fits_l2(self) -> bool:
        """Equation 4: the stationary tile, k2 of the other kind and their results fit in L2."""
        return self.in_l2 <= self.target.l2_bytes * BETA

    @property
    def fits_l3(self) -> bool:
        """Equation 5: k3 stationary tiles, k2 of the other kind and their results fit in the last cache."""
        return self.in_l3 <= max(self.target.l3_bytes, self.target.l2_bytes) * GAMMA

    @property
    def moving_bytes(self) -> int:
        """Bytes of the ``k2`` moving tiles, which the next stationary one meets again: of windows that lie in
        place no more than there are."""
        _, (_, moving) = self._roles()
        conv = self.conv
        plane = self.n_c * conv.in_h * conv.in_w * FLOAT_BYTES
        limited = not self.packed and self.order == WEIGHT_STATIONARY
        return min(self.k2 * moving, plane) if limited else self.k2 * moving

    @property
    def near(self) -> bool:
        """Whether all ``k2`` moving tiles stay in L1, so that every stationary one meets them there."""
        _, (_, moving) = self._roles()
        return self.packed and self.k2 * moving <= self.target.l1_bytes * NEAR

    @property
    def dram_lines(self) -> int:
        """Cache lines from memory: every tile once, and reloads (equation 7)."""
        return self.cold_lines + self.reloaded_lines

    @property
    def cold_lines(self) -> int:
        """Cache lines from memory to touch every tile once (equation 8)."""
        (still_tiles, still), (moving_tiles, moving) = self._roles()
        return self._lines(still_tiles * still + moving_tiles * moving)

    @property
    def reloaded_lines(self) -> int:
        """Cache lines that come from memory again (equations 9 to 11)."""
        (still_tiles, _), (moving_tiles, moving) = self._roles()
        moving_fit_min = min(ceil_div(moving_tiles, self.k2) - 1, 1)
        still_fit = ceil_div(still_tiles, self.k3) - 1
        return self._lines(moving_fit_min * still_fit * moving_tiles * moving)

    @property
    def l3_lines(self) -> int:
        """Cache lines from L3: the stationary tiles again for every further k2 set (equations 12, 13)."""
        (still_tiles, still), (moving_tiles, _) = self._roles()
        return self._lines((ceil_div(moving_tiles, self.k2) - 1) * still_tiles * still)

    @property
    def l2_lines(self) -> int:
        """Cache lines from L2: the moving tiles for every stationary tile but the first (equation 14)."""
        (still_tiles, _), (moving_tiles, moving) = self._roles()
        return self._lines((still_tiles - 1) * moving_tiles * moving)

    @property
    def l1_overflow_lines(self) -> int:
        """Cache lines from L2: the stationary tiles again for every moving tile when L1 cannot keep them."""
        (still_tiles, still), (moving_tiles, _) = self._roles()
        return 0 if self.fits_l1 else self._lines((moving_tiles - 1) * still_tiles * still)

    @property
    def cycles(self) -> int:
        """C_TOTAL, the cost of moving tiles (equation 6)."""
        return self.target.dram_cycles * self.cold_lines + self.reload_cycles

    @property
    def reload_cycles(self) -> int:
        """The part of ``cycles`` that slicing decides: all loads but the first of each tile."""
        target = self.target
        l3_cycles = target.l3_cycles if target.l3_bytes else target.dram_cycles
        return (
            target.dram_cycles * self.reloaded_lines
            + l3_cycles * self.l3_lines
            + target.l2_cycles * self.l2_lines
        )

    def _roles(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(count, bytes) of the stationary tiles, then of the moving ones."""
        inputs, filters = (self.in_tiles, self.in_tile), (self.fs_tiles, self.fs_tile)
        return (inputs, filters) if self.order == INPUT_STATIONARY else (filters, inputs)

    def _lines(self, size: int) -> int:
        return ceil_div(ceil_div(self.conv.in_c, self.n_c) * size, self.target.line_bytes)


def slice_for(conv: Conv2d, n_f: int, n_win: int, order: str, target: Target, packed: bool = True) -> Slicing:
    """The largest n_c, k2 and k3, each halved from its maximum until its constraint holds."""

    def at(n_c: int, k2: int = 1, k3: int = 1) -> Slicing:
        return Slicing(conv, target, n_f, n_win, order, n_c, k2, k3, packed)

    (still_tiles, _), (moving_tiles, _) = at(1)._roles()
    n_c = _halved(conv.in_c, lambda value: at(value).fits_l1)
    k2 = _halved(moving_tiles, lambda value: at(n_c, value).fits_l2)
    k3 = _halved(still_tiles, lambda value: at(n_c, k2, value).fits_l3)
    return at(n_c, k2, k3)


def slice_near(conv: Conv2d, n_f: int, n_win: int, target: Target) -> Slicing:
    """Stationary filters, and as few windows at a time as stay in L1 (``near``).

    Each filter tile writes the results of all of them, side by side: lines in order, which a prefetcher
    follows. The analysis counts no results; where a sum gets few products they cost more than the filters.
    """
    wide = slice_for(conv, n_f, n_win, WEIGHT_STATIONARY, target)
    return replace(wide, k2=_halved(wide.in_tiles, lambda k2: replace(wide, k2=k2).near))


def most_channels(slicing: Slicing) -> int:
    """The most channels, in multiples of four, that fit L1 beside the tiles: what section 9 leaves for later.

    Halving gives 16 of 64 where 28 fit.
    """
    counts = range(4, slicing.conv.in_c, 4)
    fit = bisect(counts, False, key=lambda n_c: not replace(slicing, n_c=n_c).fits_l1)
    return counts[fit - 1] if fit else slicing.n_c


def analyse(conv: Conv2d, n_f: int, n_win: int, target: Target, packed: bool = True) -> Slicing:
    """The cheaper of the input-stationary and the weight-stationary order."""
    slicings = [
        slice_for(conv, n_f, n_win, order, target, packed) for order in (INPUT_STATIONARY, WEIGHT_STATIONARY)
    ]
    return min(slicings, key=lambda slicing: slicing.cycles)


def _halved(value: int, fits: Callable[[int], bool]) -> int:
    while value > 1 and not fits(value):
        value //= 2
    return value


def _halvings(start: int, value: int) -> int:
    return next(times for times in range(start.bit_length()) if start >> times <= value)
