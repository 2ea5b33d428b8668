"""The sizes of one config of a depthwise convolution whose vectors are neighbouring channels."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.arithmetic import ceil_div, even, inside
from kernels.float.plan import ConvPlan
from kernels.knobs import KnobSet
from kernels.layout import NHWC
from kernels.target import Target
from kernels.workload.base import Conv2d

GROUPS, ROWS = "groups", "rows"
"""What threads share out: groups of channels of all images, or the rows of each."""
MOST_COLUMNS = 20
"""Windows of a block that keep the multiply-adds of every target busy; more only make longer code."""


@dataclass(frozen=True)
class Place:
    """How far apart neighbours of a tensor lie, in elements, and of a vector its first channel."""

    image: int
    channel: int
    row: int
    column: int

    @classmethod
    def of(cls, layout: str, channels: int, height: int, width: int, lanes: int) -> Place:
        """A tensor of ``channels`` x ``height`` x ``width`` images with channels innermost."""
        image = channels * height * width
        if layout == NHWC:
            return cls(image, 1, width * channels, channels)
        return cls(image, height * width, width * lanes, lanes)


@dataclass(frozen=True)
class Block:
    """``count`` runs of ``windows`` neighbouring windows of a row, the first from column ``left``."""

    left: int
    windows: int
    count: int


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``columns`` windows of a row are one register block. In NHWC that has one or two ``vectors`` of
    channels, and ``strip`` such groups take turns in each block. ``split`` is what threads share out.
    """

    columns: int
    vectors: int = 1
    strip: int = 1
    split: str = GROUPS


@dataclass(frozen=True)
class Plan(ConvPlan):
    """A register block is at most ``columns`` windows of a row by some vectors of ``lanes`` channels each."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why the sums do not fit the registers, or None when they do."""
        columns, vectors, most = self.knobs.columns, self.knobs.vectors, most_columns(self.conv, self.target)
        if vectors == 1 or columns * vectors <= most:
            return None
        return f"{columns}x{vectors} accumulators spill: {self.target.name} holds {most}"

    @property
    def lanes(self) -> int:
        """Channels of a vector."""
        return lanes_of(self.conv, self.target)

    @property
    def width(self) -> int:
        """Channels of a group."""
        return self.lanes * self.knobs.vectors

    @property
    def groups(self) -> int:
        """Groups of channels. When they do not divide the channels, the last overlaps the one before it."""
        return ceil_div(self.conv.in_c, self.width)

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return self.groups * self.conv.taps * self.width

    def tap_columns(self, window: int) -> range:
        """The columns of the filter that meet the image, not its padding, at the window in a column."""
        conv = self.conv
        return range(*inside(conv.pad[1] - window * conv.stride[1], conv.dilation[1], conv.kw, conv.in_w))

    @property
    def blocks(self) -> list[Block]:
        """The register blocks of one row, from left to right; those in the middle are alike."""
        blocks: list[Block] = []
        left = 0
        for windows, count in even(self.conv.out_w, self.knobs.columns):
            for _ in range(count):
                last = blocks[-1] if blocks else None
                if (
                    last
                    and last.windows == windows
                    and self._inner(left, windows)
                    and self._inner(last.left, 1)
                ):
                    blocks[-1] = Block(last.left, windows, last.count + 1)
                else:
                    blocks.append(Block(left, windows, 1))
                left += windows
        return blocks

    def _inner(self, left: int, windows: int) -> bool:
        """Whether no window of a block meets the padding left or right."""
        return all(len(self.tap_columns(left + i)) == self.conv.kw for i in range(windows))


def lanes_of(conv: Conv2d, target: Target) -> int:
    """Channels of a vector: as many as the target has lanes, if there are."""
    return lanes_for(conv.in_c, target)


def lanes_for(channels: int, target: Target) -> int:
    """Elements of a vector of so many channels."""
    return min(target.lanes(), 1 << (channels.bit_length() - 1))


def most_columns(conv: Conv2d, target: Target) -> int:
    """Windows whose sums fit the registers beside a row of taps and a value."""
    return max(1, min(MOST_COLUMNS, target.vector_registers - min(conv.kw, 8) - 1))
