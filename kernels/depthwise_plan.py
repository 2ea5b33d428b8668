"""The sizes of one config of a depthwise convolution whose vectors are neighbouring channels."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.grouped_nest import even
from kernels.layout import NHWC
from kernels.padding import inside
from kernels.workload import Conv2d


def inner_rows(conv: Conv2d) -> range:
    """The rows of output where all rows of the filter meet the image, none its padding."""
    reach = (conv.kh - 1) * conv.dilation[0]
    return range(*inside(conv.pad[0], conv.stride[0], conv.out_h, max(0, conv.in_h - reach)))


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
class ChannelPlan:
    """A register block is at most ``columns`` windows of a row by ``vectors`` of ``lanes`` channels each.

    ``strip`` groups of so many vectors take turns in every block; ``split`` says what the threads share out.
    """

    conv: Conv2d
    lanes: int
    columns: int
    vectors: int
    strip: int
    split: str

    @property
    def width(self) -> int:
        """Channels of a group."""
        return self.lanes * self.vectors

    @property
    def groups(self) -> int:
        """Groups of channels. When they do not divide the channels, the last overlaps the one before it."""
        return -(-self.conv.in_c // self.width)

    @property
    def taps(self) -> int:
        """Taps of a filter."""
        return self.conv.kh * self.conv.kw

    @property
    def packed(self) -> int:
        """Elements of the packed weights."""
        return self.groups * self.taps * self.width

    def tap_columns(self, window: int) -> range:
        """The columns of the filter that meet the image, not its padding, at the window in a column."""
        conv = self.conv
        return range(*inside(conv.pad[1] - window * conv.stride[1], conv.dilation[1], conv.kw, conv.in_w))

    @property
    def blocks(self) -> list[Block]:
        """The register blocks of one row, from left to right; those in the middle are alike."""
        blocks: list[Block] = []
        left = 0
        for windows, count in even(self.conv.out_w, self.columns):
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
