"""Channels as vectors of bytes, and where unpacking them puts each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.kernel import Array


@dataclass(frozen=True)
class Part:
    """``count`` vectors of channels from number ``first`` on, of which each holds ``windows`` windows."""

    first: int
    count: int
    windows: int


@dataclass(frozen=True)
class Channels:
    """So many channels in vectors of so many ``lanes``."""

    count: int
    lanes: int

    @property
    def parts(self) -> list[Part]:
        """The vectors of all channels; the last of each kind ends with the channels and may overlap the one
        before. Half a vector of channels, and what does not fill one, takes two windows at a time."""
        half = self.lanes // 2
        if self.count < half:
            return [Part(0, 1, 1)]
        if self.count < self.lanes:
            return [Part(0, ceil_div(self.count, half), 2)]
        rest = self.count % self.lanes
        whole = self.count // self.lanes + (rest > half)
        return [Part(0, whole, 1), *[Part(whole, 1, 2)] * (0 < rest <= half)]

    @property
    def vectors(self) -> int:
        """All vectors."""
        return sum(part.count for part in self.parts)

    def spread(self, values: Array) -> Array:
        """The last axis (channels) as [vector, lane]; zeros where there are too few channels."""
        vectors = []
        for part in self.parts:
            width = self.lanes // part.windows
            last = max(0, self.count - width)
            for number in range(part.count):
                first = min(number * width, last) if part.first == 0 else last
                some = values[..., first : first + width]
                missing = [(0, 0)] * (some.ndim - 1) + [(0, width - some.shape[-1])]
                vectors.append(np.concatenate([np.pad(some, missing)] * part.windows, axis=-1))
        return np.stack(vectors, axis=-2)

    @property
    def halves(self) -> tuple[list[int], list[int]]:
        """The lanes that vpunpcklbw and vpunpckhbw take of a vector: eight of each sixteen."""
        low, high = (
            [at + start + i for at in range(0, self.lanes, 16) for i in range(8)] for start in (0, 8)
        )
        return low, high

    @property
    def unpacked(self) -> list[int]:
        """The lanes of four vectors of int32 side by side: vpunpcklwd and vpunpckhwd of each half."""
        eights = range(0, self.lanes // 2, 8)
        return [half[at + s + i] for half in self.halves for s in (0, 4) for at in eights for i in range(4)]
