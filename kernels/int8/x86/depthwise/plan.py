"""The sizes that one config of the depthwise convolution of bytes implies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kernels.arithmetic import ceil_div, even
from kernels.int8.band import Band
from kernels.int8.kernel import QuantizedPlan
from kernels.int8.x86.depthwise.channels import Channels
from kernels.int8.x86.depthwise.taps import Taps
from kernels.int8.x86.instructions import WAYS
from kernels.knobs import KnobSet

NONE, BAND = "none", "band"
"""Windows are read where they lie, or from a padded copy."""
CHANNELS, ROWS, PIXELS = "channels", "rows", "pixels"
"""What the outermost loop is over; ``pixels``: blocks of windows before the channels of each."""
HIGH = "high"
"""The way to requantize that has constants made for it."""
UNROLLED = 400
"""Most products in the code that are worth compiling."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """With ``stage`` ``none`` windows are read where they lie, and those that reach into the padding have
    code of their own; with ``band`` from a padded copy. ``windows`` of a row are in registers at a time;
    ``rows`` of output a band; ``order`` is what the outer loop is over within a band: vectors of
    ``channels``, ``rows``, or rows and then blocks of windows (``pixels``). ``requant`` is how sums are
    scaled.
    """

    stage: str
    windows: int
    rows: int
    order: str
    requant: str


@dataclass(frozen=True)
class Plan(QuantizedPlan):
    """A config as numbers."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why threads cannot share the bands out, or the code would be too long; None when it is fine."""
        conv, threads = self.conv, self.threads
        if self.bands < min(threads, conv.n * conv.out_h):
            return "fewer bands than threads"
        if self.staged:
            return None
        if threads == 1 and self.knobs.rows != conv.out_h:
            return "bands are of copied rows"
        unrolled = self.unrolled
        return f"{unrolled} unrolled products are too many" if unrolled > UNROLLED else None

    @property
    def bands(self) -> int:
        """Bands of all images."""
        return self.conv.n * ceil_div(self.conv.out_h, self.knobs.rows)

    @property
    def bits(self) -> int:
        """Size of a vector register."""
        return self.target.vector_bits

    @property
    def lanes(self) -> int:
        """Bytes of a vector."""
        return self.bits // 8

    @cached_property
    def channels(self) -> Channels:
        """The vectors."""
        return Channels(self.conv.out_c, self.lanes)

    @cached_property
    def taps(self) -> Taps:
        """The products."""
        return Taps(self.conv)

    # Constants

    @property
    def packed_vector(self) -> int:
        """Elements of a vector's weights and middles."""
        return self.lanes * (len(self.taps.products) + len(self.taps.centered))

    @property
    def packed_length(self) -> int:
        """Elements of those of all vectors."""
        return self.channels.vectors * self.packed_vector

    @property
    def packed_dtype(self) -> str:
        """Weights are read as pairs of bytes, middles are int16."""
        return "int16"

    @property
    def kinds(self) -> int:
        """How many constants of a lane each of the int32 buffers holds."""
        return 2 if self.knobs.requant == HIGH else 1

    @property
    def padded_filters(self) -> int:
        """Constants of all kinds, one a lane."""
        return self.channels.vectors * self.lanes * self.kinds

    @property
    def padded_scales(self) -> int:
        """Scales are one a lane, also where all channels share one."""
        return self.padded_filters

    # What is read

    @property
    def offset(self) -> int:
        """What is added to the data, as bytes are multiplied unsigned."""
        return WAYS["bytes"].offset(self.conv)

    @property
    def staged(self) -> bool:
        """Whether there is a copy."""
        return self.knobs.stage == BAND

    @property
    def band(self) -> Band:
        """The copy; where channels are too few, a vector reads beyond the last pixel."""
        return Band(self.conv, self.knobs.rows, "uint8", self.offset, self.lanes)

    @property
    def step(self) -> tuple[int, int]:
        """Rows and columns of what is read between neighbouring windows."""
        return self.band.step if self.staged else self.conv.stride

    @property
    def pitch(self) -> int:
        """Elements between rows of what is read."""
        return self.band.pitch if self.staged else self.conv.in_w * self.conv.in_c

    @property
    def inner(self) -> tuple[range, range]:
        """Rows and columns of windows that do not reach into the padding; with a copy, all do not."""
        conv = self.conv
        if self.staged:
            return range(conv.out_h), range(conv.out_w)
        return conv.inner_rows, conv.inner_columns

    def runs(self, edge: bool) -> list[tuple[range, int]]:
        """The windows of a row in blocks as even as can be, those apart that reach into the padding: of
        neighbours that have the same code the first, and how many they are. Rows at an ``edge`` have small
        blocks, so that there is less code."""
        at_once = self.channels.parts[-1].windows if edge else self.knobs.windows
        across, found = self.inner[1], list[tuple[range, int]]()
        before, behind = range(across.start), range(across.stop, self.conv.out_w)
        for part in filter(None, (before, across, behind)):
            start = part.start
            for size, count in even(len(part), at_once):
                blocks = [range(at, at + size) for at in range(start, start + count * size, size)]
                found += [(blocks[0], count)] if part is across else [(block, 1) for block in blocks]
                start += count * size
        return found

    @property
    def unrolled(self) -> int:
        """Products in the code."""
        down = len(self.inner[0])
        rows = (bool(down), False), (self.conv.out_h - down, True)
        windows = sum(count * len(block) for count, edge in rows for block, _ in self.runs(edge))
        return windows * len(self.taps.products) * len(self.channels.parts)
