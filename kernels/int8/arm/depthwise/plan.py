"""What a config of the quantized depthwise convolution on Arm means."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.operands import signedness, why_not_chained
from kernels.int8.arm.plan import NeonKnobs, NeonPlan
from kernels.workload.qconv2d import QConv2d

WIDE, PAIRS, THREES = "wide", "pairs", "threes"
TOGETHER = {WIDE: 1, PAIRS: 2, THREES: 3}
"""How many products are added before they are added to 32 bits."""
NONE, TOUCH, BAND = "none", "touch", "band"
"""How the data come near: as windows ask for them, a line after the other ahead of windows, or by a copy."""
APART, ALONG = "apart", "along"
UNROLLED = 4000
"""Most taps in the code that are worth compiling."""


@dataclass(frozen=True)
class Knobs(NeonKnobs):
    """``multiply`` is ``wide``, products of 16-bit numbers added to 32 bits (``smlal``), or ``pairs``
    or ``threes``, two or three products of bytes added in 16 bits first where the weights' range proves that
    they fit. With ``stage``
    ``band`` the input is padded and widened in a copy, made for ``band`` rows of output and ``chunk``
    channels right before these: the smaller, the nearer is what is copied to its use, and the more is copied
    twice. With ``none`` it is read as it lies, and windows at the edges have code of their own; with
    ``touch`` one element of each line is loaded before, line after line. ``edges`` says whether those windows
    come ``along`` with their row, or ``apart``: their lines are fetched twice then, but rows of input and of
    output are not first met in turn, which can give them the same places in a cache. ``tile`` windows are in
    registers at a time.
    """

    multiply: str
    stage: str
    band: int
    tile: int
    chunk: int
    edges: str


@dataclass(frozen=True)
class Plan(NeonPlan):
    """``band`` rows of output and ``chunk`` channels at a time, ``tile`` windows in registers."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why knobs say what there is not, or more than is worth compiling; None when they do not."""
        knobs, conv = self.knobs, self.conv
        if knobs.multiply not in ways_to_multiply(conv):
            return f"the weights of {conv} do not allow {knobs.multiply}"
        if knobs.edges == ALONG and (self.staged or max(conv.pad) == 0):
            return "there are no edges"
        if self.staged:
            return None
        if knobs.band != conv.out_h:
            return "bands are of copied rows"
        if knobs.stage == TOUCH and knobs.chunk != conv.in_c:
            return "parts of the channels lie in no row of lines"
        return f"{self.unrolled} unrolled taps are too many" if self.unrolled > UNROLLED else None

    @property
    def staged(self) -> bool:
        """Whether there is a copy."""
        return self.knobs.stage == BAND

    @property
    def packed_dtype(self) -> str:
        """The type that is multiplied."""
        return "int16" if self.knobs.multiply == WIDE else "int8"

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return self.conv.taps * self.conv.in_c + self.slack

    @property
    def lanes(self) -> int:
        """Channels in a group."""
        return 8 if self.conv.in_c >= 8 else QUAD

    @property
    def slack(self) -> int:
        """Channels that a group reads beyond the last one."""
        return max(0, self.lanes - self.conv.in_c)

    @property
    def pitch(self) -> int:
        """Elements between neighbouring columns of what is read."""
        return self.knobs.chunk if self.staged else self.conv.in_c

    @property
    def inside(self) -> tuple[range, range]:
        """Rows and columns of windows that do not reach into the padding; with a copy, all do not."""
        conv = self.conv
        if self.staged:
            return range(conv.out_h), range(conv.out_w)
        return conv.inner_rows, conv.inner_columns

    @property
    def unrolled(self) -> int:
        """Taps in the code: windows at the edges have their own."""
        conv, (down, across) = self.conv, self.inside
        rows = conv.out_h - len(down) + bool(down)
        width = len(across)
        windows = conv.out_w - width + min(width, self.knobs.tile + width % self.knobs.tile)
        return rows * windows * conv.taps

    @property
    def bands(self) -> int:
        """Bands of one image."""
        return ceil_div(self.conv.out_h, self.knobs.band)

    @property
    def rows(self) -> int:
        """Rows of input that a band needs."""
        conv = self.conv
        return (self.knobs.band - 1) * conv.stride[0] + (conv.kh - 1) * conv.dilation[0] + 1

    @property
    def columns(self) -> int:
        """Columns between the beginnings of the rows that are read."""
        conv = self.conv
        if not self.staged:
            return conv.in_w
        return (conv.out_w - 1) * conv.stride[1] + (conv.kw - 1) * conv.dilation[1] + 1


def ways_to_multiply(conv: QConv2d) -> list[str]:
    """Those that the weights allow, the fastest last."""
    fit = signedness(conv) is True
    return [WIDE, *(way for way in (PAIRS, THREES) if fit and why_not_chained(conv, TOGETHER[way]) is None)]
