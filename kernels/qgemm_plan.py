"""What a config of the quantized matrix product means for one convolution: block, operands, tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kernels.kernel import Array
from kernels.qblocks import BLOCKS, Block
from kernels.qworkload import QConv2d
from kernels.space import Config
from kernels.target import Target, is_arm32

SIGNED, UNSIGNED = (-128, 127), (0, 255)


def signedness(conv: QConv2d) -> bool | None:
    """Whether weights less their zero point fit signed bytes, or else unsigned ones; None when neither."""
    low, high = conv.centered_range
    if low >= SIGNED[0] and high <= SIGNED[1]:
        return True
    return False if low >= UNSIGNED[0] and high <= UNSIGNED[1] else None


def why_not_chained(conv: QConv2d) -> str | None:
    """Why sums of two products of bytes do not fit 16 bits, or None when the weights' range proves it."""
    low, high = conv.centered_range
    data_low, data_high = SIGNED if signedness(conv) else UNSIGNED
    ends = [2 * data * weight for data in (data_low, data_high) for weight in (low, high)]
    limits = (-(1 << 15), (1 << 15) - 1) if signedness(conv) else (0, (1 << 16) - 1)
    if limits[0] <= min(ends) and max(ends) <= limits[1]:
        return None
    return f"two products by weights from {low} to {high} may not fit 16 bits"


@dataclass(frozen=True)
class Plan:
    """One image after another, ``windows`` x ``depth`` times ``depth`` x ``filters``, in tiles of ``block``.

    ``depth`` is filled up to ``steps`` steps of the block. ``slab`` tiles of windows are transformed before
    they are used, and meet a panel of filters while it is near; ``in_place`` are windows that need no
    transform.
    """

    conv: QConv2d
    block: Block
    slab: int
    in_place: bool

    @classmethod
    def of(cls, conv: QConv2d, config: Config, target: Target) -> Plan:
        """The plan of a valid config."""
        block = BLOCKS[str(config["block"])](
            min(config.int("rows"), windows_of(conv)),
            min(config.int("columns"), conv.out_c),
            signed=signedness(conv) is not False,
            chain=config.int("chain"),
            arm32=is_arm32(target),
        )
        return cls(
            conv,
            block,
            config.int("slab"),
            config["rows_from"] == "data",
        )

    @property
    def windows(self) -> int:
        """Rows of the product, over all images."""
        return windows_of(self.conv)

    @property
    def depth(self) -> int:
        """Products a sum."""
        return self.conv.kh * self.conv.kw * self.conv.in_c

    @property
    def steps(self) -> int:
        """Steps of the block along the depth."""
        return -(-self.depth // self.block.depth)

    @property
    def padded_depth(self) -> int:
        """``depth``, filled up."""
        return self.steps * self.block.depth

    @property
    def offset(self) -> int:
        """What is added to the data so that they have the block's sign."""
        if self.block.dtype == self.conv.data_dtype or self.block.dtype == "int16":
            return 0
        return -128 if self.block.signed else 128

    @property
    def tiles(self) -> int:
        """Whole tiles of windows."""
        return self.windows // self.block.rows

    @property
    def rest(self) -> Block | None:
        """The block of the windows that are left."""
        rows = self.windows % self.block.rows
        return replace(self.block, rows=rows) if rows else None

    @property
    def panels(self) -> list[tuple[int, int, Block]]:
        """(first filter, panels, block) of the whole panels and of the narrower one that is left."""
        whole, rest = divmod(self.conv.out_c, self.block.columns)
        found = [(0, whole, self.block)] if whole else []
        if rest:
            found.append((whole * self.block.columns, 1, replace(self.block, columns=rest)))
        return found

    def panel_at(self, first: int) -> int:
        """Where the packed weights of the panel that begins with filter ``first`` start."""
        return first // self.block.columns * self.block.panel * self.padded_depth

    @property
    def packed(self) -> int:
        """Elements of the packed weights."""
        return sum(count * block.panel * self.padded_depth for _, count, block in self.panels)

    def pack(self, weights: Array) -> Array:
        """Flattened to (depth, filters), cut into panels, and each step's block transposed as wanted."""
        flat = np.zeros((self.padded_depth, self.conv.out_c), self.block.dtype)
        flat[: self.depth] = weights.reshape(self.depth, self.conv.out_c)
        parts = []
        for first, count, block in self.panels:
            part = flat[:, first : first + count * block.columns]
            part = part.reshape(self.steps, block.depth, count, block.columns).transpose(2, 0, 1, 3)
            part = np.pad(part, ((0, 0), (0, 0), (0, 0), (0, block.panel - block.columns)))
            parts.append(np.ascontiguousarray(block.weights_step(part)).reshape(-1))
        return np.concatenate(parts)


def windows_of(conv: QConv2d) -> int:
    """Windows of all images."""
    return conv.n * conv.out_h * conv.out_w


def why_not_in_place(conv: QConv2d, block: Block) -> str | None:
    """Why the rows of the product do not lie in the data as they are, or None when they do."""
    if (conv.kh, conv.kw) != (1, 1) or max(conv.stride) > 1 or max(conv.pad) > 0:
        return "windows overlap, are padded or skip some of the data"
    if conv.in_c % block.depth:
        return f"{conv.in_c} channels are no multiple of {block.depth}"
    if block.dtype not in (conv.data_dtype, "int16"):
        return f"the data are {conv.data_dtype}, the products want {block.dtype}"
    return None
