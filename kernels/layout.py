"""How activations of a convolution lie in memory.

A layout is a word: ``nchw``, ``nhwc``, or ``nchw8c`` (any block in place of 8): channels in blocks of 8, the
block's channels innermost. All are dense. Workloads keep their logical shape, NCHW; a layout is how an array
of that shape is stored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from kernels.target import Target

if TYPE_CHECKING:  # commands that name layouts and have no arrays do not wait for numpy
    import numpy.typing as npt

    Array = npt.NDArray[Any]

NCHW, NHWC = "nchw", "nhwc"
_BLOCKED = re.compile(r"nchw([1-9][0-9]*)c")


class Layouts(NamedTuple):
    """What a config reads and writes; the residual lies like the output."""

    data: str = NCHW
    out: str = NCHW

    def __str__(self) -> str:
        return self.data if self.data == self.out else f"{self.data}>{self.out}"

    @classmethod
    def read(cls, text: str) -> Layouts:
        """The inverse of ``str``; ValueError for no layouts."""
        data, _, out = text.partition(">")
        layouts = cls(data, out or data)
        for layout in layouts:
            block_of(layout)
        return layouts


PLAIN = Layouts()
"""What a kernel has that knows no layouts."""


def block_of(layout: str) -> int | None:
    """Channels a block: 8 for ``nchw8c``, None where channels are not blocked; ValueError for no layout."""
    if layout in (NCHW, NHWC):
        return None
    found = _BLOCKED.fullmatch(layout)
    if found is None:
        raise ValueError(f"unknown layout {layout!r}; there are nchw, nhwc and nchw8c (any block)")
    return int(found[1])


def layouts_for(channels: int, target: Target) -> tuple[str, ...]:
    """The layouts worth considering for a tensor of ``channels`` channels on ``target``, NCHW first."""
    lanes = target.lanes()
    blocked = () if channels % lanes else (f"nchw{lanes}c",)
    return (NCHW, NHWC, *blocked)


def stored_shape(layout: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in which an array of NCHW ``shape`` is stored; ValueError when the block does not divide."""
    n, c, h, w = shape
    block = block_of(layout)
    if block is None:
        return (n, h, w, c) if layout == NHWC else (n, c, h, w)
    if c % block:
        raise ValueError(f"{layout} needs channels in multiples of {block}, got {c}")
    return (n, c // block, h, w, block)


def to_layout(array: Array, layout: str) -> Array:
    """An NCHW array as it is stored in ``layout``, contiguous."""
    import numpy as np

    block = block_of(layout)
    if block is None:
        return np.ascontiguousarray(array.transpose(0, 2, 3, 1) if layout == NHWC else array)
    n, _, h, w, _ = stored_shape(layout, array.shape)
    return np.ascontiguousarray(array.reshape(n, -1, block, h, w).transpose(0, 1, 3, 4, 2))


def from_layout(array: Array, layout: str) -> Array:
    """An array stored in ``layout`` as NCHW, contiguous; the inverse of ``to_layout``."""
    import numpy as np

    if block_of(layout) is None:
        return np.ascontiguousarray(array.transpose(0, 3, 1, 2) if layout == NHWC else array)
    n, blocks, h, w, block = array.shape
    return np.ascontiguousarray(array.transpose(0, 1, 4, 2, 3).reshape(n, blocks * block, h, w))
