"""The products of a depthwise convolution of bytes: which taps go together, and what is added in int16."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.int8.x86.instructions import INT16
from kernels.kernel import Array
from kernels.workload.qconv2d import LIMITS, QConv2d

SPAN = INT16[1] - INT16[0]
"""How far the sums of a group of taps may be apart, once their middle is subtracted."""
LARGEST_BYTE = LIMITS["uint8"][1]
Tap = tuple[int, int]
Pair = tuple[Tap, Tap | None]
"""Taps whose data are interleaved; one alone meets a weight of zero."""


@dataclass(frozen=True)
class Product:
    """One vpmaddubsw: the interleaved data of ``pair`` by the weights of ``taps``, zero where None, or by
    ``ones``."""

    pair: Pair
    taps: tuple[Tap | None, Tap | None]
    ones: bool = False


@dataclass(frozen=True)
class Taps:
    """The taps of a workload."""

    conv: QConv2d

    @property
    def excess(self) -> int:
        """What is taken off weights where they leave int8 without their zero.

        The sum of the data makes up for it.
        """
        low, high = self.conv.centered_range
        least, most = LIMITS["int8"]
        return 0 if least <= low <= high <= most else ceil_div(low + high, 2)

    def weights(self, product: Product, by_tap: Array) -> list[Array]:
        """The two factors of a product, each (channels,), of (kh, kw, channels)."""
        none = np.zeros_like(by_tap[0, 0])
        by_tap = np.ones_like(by_tap) if product.ones else by_tap - self.excess
        return [by_tap[tap] if tap else none for tap in product.taps]

    @property
    def _largest(self) -> int:
        return max(1, *(abs(limit - self.excess) for limit in self.conv.centered_range))

    @property
    def together(self) -> bool:
        """Whether two products fit int16."""
        return 2 * LARGEST_BYTE * self._largest <= INT16[1]

    @cached_property
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

    @cached_property
    def products(self) -> list[Product]:
        """Those of all groups."""
        return [product for group in self.groups for product in group]

    @cached_property
    def groups(self) -> list[list[Product]]:
        """Products that are added in int16: each pair at once, or each of its taps alone where two products
        may not fit. The last are those by ones, where there is an excess."""
        if self.together:
            products = [Product(pair, pair) for pair in self.pairs]
        else:
            alone = [(pair, taps) for pair in self.pairs for taps in ((pair[0], None), (None, pair[1]))]
            products = [Product(pair, taps) for pair, taps in alone if any(taps)]
        most = SPAN // (LARGEST_BYTE * self._largest)
        each = max(1, most // (2 if self.together else 1))
        groups = [products[at : at + each] for at in range(0, len(products), each)]
        return groups + [[Product(pair, pair, ones=True) for pair in self.pairs]] * (self.excess != 0)

    @property
    def centered(self) -> list[int]:
        """The groups whose middle is subtracted: one product fits as it is, and so do data."""
        return [at for at, group in enumerate(self.groups) if len(group) > 1 and not group[0].ones]

    def times(self, group: int) -> int:
        """What the sums of a group are multiplied by as they are widened."""
        return self.excess if self.groups[group][0].ones else 1
