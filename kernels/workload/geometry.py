"""What float and quantized convolutions have in common: sizes that follow from their fields."""

from __future__ import annotations

from kernels.arithmetic import inside
from kernels.workload.canonical import key_of, require_positive


class ConvGeometry:
    """Sizes of a 2-D convolution; pads are (top, left, bottom, right)."""

    n: int
    in_h: int
    in_w: int
    in_c: int
    out_c: int
    kh: int
    kw: int
    stride: tuple[int, int]
    pad: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int

    @property
    def out_h(self) -> int:
        """Output rows."""
        top, _, bottom, _ = self.pad
        return (self.in_h + top + bottom - self.dilation[0] * (self.kh - 1) - 1) // self.stride[0] + 1

    @property
    def out_w(self) -> int:
        """Output columns."""
        _, left, _, right = self.pad
        return (self.in_w + left + right - self.dilation[1] * (self.kw - 1) - 1) // self.stride[1] + 1

    @property
    def windows(self) -> int:
        """Output elements a channel of one image."""
        return self.out_h * self.out_w

    @property
    def taps(self) -> int:
        """Products that an output element gets from each channel."""
        return self.kh * self.kw

    @property
    def depth(self) -> int:
        """Channels of a group."""
        return self.in_c // self.groups

    @property
    def filters(self) -> int:
        """Filters of a group."""
        return self.out_c // self.groups

    @property
    def is_depthwise(self) -> bool:
        """Whether every channel has one filter of its own."""
        return self.groups == self.in_c == self.out_c

    @property
    def is_pointwise(self) -> bool:
        """Whether it is a matrix product whose rows are the pixels as they lie."""
        return (self.taps, self.groups, *self.stride) == (1,) * 4 and not any(self.pad)

    @property
    def bias_length(self) -> int:
        """How many bias values there are."""
        return self.out_c

    @property
    def flops(self) -> int:
        """Operations of the product (two a multiply-add), what follows it not counted."""
        return 2 * self.n * self.out_c * self.windows * self.depth * self.taps

    @property
    def inner_rows(self) -> range:
        """The rows of output whose windows meet no padding above or below."""
        reach = (self.kh - 1) * self.dilation[0]
        return range(*inside(self.pad[0], self.stride[0], self.out_h, max(0, self.in_h - reach)))

    @property
    def inner_columns(self) -> range:
        """The columns of output whose windows meet no padding left or right."""
        reach = (self.kw - 1) * self.dilation[1]
        return range(*inside(self.pad[1], self.stride[1], self.out_w, max(0, self.in_w - reach)))

    @property
    def key(self) -> str:
        """Content hash, the workload's name."""
        return key_of(self)

    def spelled(self, sizes: str, rest: str) -> str:
        """The layer for people: the input's ``sizes``, what the filters do where it is unusual, ``rest``."""
        text = (f"{self.n}x " if self.n > 1 else "") + f"{sizes} -> {self.out_c}, {self.kh}x{self.kw}"
        text += f"/{both(self.stride)}" if max(self.stride) > 1 else ""
        text += f" d{both(self.dilation)}" if max(self.dilation) > 1 else ""
        return text + (f" g{self.groups}" if self.groups > 1 else "") + rest

    def check_geometry(self, kind: str) -> None:
        """Raises ValueError that names, after ``kind``, the first size that makes no convolution."""
        require_positive(self, "n", "in_c", "in_h", "in_w", "out_c", "kh", "kw", "groups")
        for name in ("stride", "dilation"):
            if min(getattr(self, name)) < 1:
                raise ValueError(f"{kind} {name} must be at least 1, got {getattr(self, name)}")
        if min(self.pad) < 0:
            raise ValueError(f"{kind} pad must not be negative, got {self.pad}")
        if self.in_c % self.groups or self.out_c % self.groups:
            raise ValueError(
                f"{kind} groups={self.groups} must divide in_c={self.in_c} and out_c={self.out_c}"
            )
        if self.out_h < 1 or self.out_w < 1:
            raise ValueError(f"{kind} output is empty: {self.out_h}x{self.out_w}")


def both(axes: tuple[int, int]) -> str:
    """A number for rows and one for columns for people: 2, or 2x1 where they differ."""
    return "x".join(map(str, dict.fromkeys(axes)))


class GemmSizes:
    """Sizes of a product of activations (m, k) by constant weights (k, n)."""

    m: int
    n: int
    k: int

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Shape of the activations: (m, k)."""
        return (self.m, self.k)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the unpacked weights: (k, n)."""
        return (self.k, self.n)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result and of the residual: (m, n)."""
        return (self.m, self.n)

    @property
    def bias_length(self) -> int:
        """How many bias values the epilogue takes."""
        return self.n

    @property
    def flops(self) -> int:
        """Floating-point operations of the product (two a multiply-add), epilogue not counted."""
        return 2 * self.m * self.n * self.k

    @property
    def key(self) -> str:
        """Content hash, the workload's name."""
        return key_of(self)
