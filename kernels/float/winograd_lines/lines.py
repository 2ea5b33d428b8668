"""A convolution with filters of one row or column as one along lines of an image's elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from kernels.workload.base import Conv2d


@dataclass(frozen=True)
class Lines:
    """An image is ``count`` lines of ``length`` elements, its result as many of ``out_length``.

    Filters have ``taps``, ``dilation`` elements apart, and are applied every ``stride`` elements, first
    ``pad`` elements before a line. To a column of taps all rows of an image are one line.
    """

    count: int
    length: int
    out_length: int
    taps: int
    stride: int
    dilation: int
    pad: int

    @classmethod
    def of(cls, conv: Conv2d) -> Self | None:
        """The lines of ``conv``, or None where it has none."""
        top, left, bottom, right = conv.pad
        rows_alone = conv.kh == 1 and conv.stride[0] == 1 and not (top or bottom)
        columns_alone = conv.kw == 1 and (conv.stride == (1, 1) or conv.in_w == 1) and not (left or right)
        if rows_alone and conv.kw > 1:
            return cls(
                conv.in_h, conv.in_w, conv.out_w, conv.kw, conv.stride[1], conv.dilation[1], conv.pad[1]
            )
        if columns_alone and conv.kh > 1:
            return cls(
                1,
                conv.in_h * conv.in_w,
                conv.out_h * conv.out_w,
                conv.kh,
                conv.stride[0],
                conv.dilation[0] * conv.in_w,
                conv.pad[0] * conv.in_w,
            )
        return None
