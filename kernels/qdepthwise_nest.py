"""The loops of the quantized depthwise convolution: bands of rows, tiles of windows, groups of channels.

TVM objects are Any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import qtir, tir
from kernels.qblocks import QUAD
from kernels.qfinish import Finish
from kernels.qworkload import QConv2d

WIDE, PAIRS = "wide", "pairs"
_NESTS = {
    "channels": ["channels", "rows", "windows"],
    "rows": ["rows", "channels", "windows"],
    "windows": ["rows", "windows", "channels"],
}
ORDERS = tuple(_NESTS)
"""What the loop over groups of channels stands within, or that it is outside."""
COPIED = 16
"""Elements that a copy moves at once."""


@dataclass(frozen=True)
class Plan:
    """One config: ``band`` rows of output at a time, ``tile`` windows in registers.

    ``staged`` says whether the input of a band is copied: padded, and as the products want it.
    """

    conv: QConv2d
    multiply: str
    staged: bool
    band: int
    tile: int
    order: str

    @property
    def dtype(self) -> str:
        """The type that is multiplied."""
        return "int16" if self.multiply == WIDE else "int8"

    @property
    def offset(self) -> int:
        """What is added to the data."""
        return -128 if self.multiply == PAIRS and self.conv.data_dtype == "uint8" else 0

    @property
    def lanes(self) -> int:
        """Channels in a group."""
        return 8 if self.conv.in_c >= 8 else QUAD

    @property
    def slack(self) -> int:
        """Channels that a group reads beyond the last one."""
        return max(0, self.lanes - self.conv.in_c)

    @property
    def bands(self) -> int:
        """Bands of one image."""
        return -(-self.conv.out_h // self.band)

    @property
    def rows(self) -> int:
        """Rows of input that a band needs."""
        conv = self.conv
        return (self.band - 1) * conv.stride[0] + (conv.kh - 1) * conv.dilation[0] + 1

    @property
    def columns(self) -> int:
        """Columns between the beginnings of the rows that are read."""
        conv = self.conv
        if not self.staged:
            return conv.in_w
        return (conv.out_w - 1) * conv.stride[1] + (conv.kw - 1) * conv.dilation[1] + 1


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: qtir.QArguments, finish: Finish) -> None:
        self.plan, self.conv, self.args, self.finish = plan, plan.conv, args, finish

    def run(self, threads: int) -> None:
        """All bands of all images, shared out over the threads."""
        plan, conv = self.plan, self.conv
        with tir.loop(conv.n * plan.bands, threads) as turn:
            image, first = T.Bind(turn // plan.bands), T.Bind(turn % plan.bands * plan.band)
            count = plan.band
            if conv.out_h % plan.band:
                count = T.Bind(tir.least(plan.band, conv.out_h - first))
            top = first * conv.stride[0] - conv.pad[0]
            if plan.staged:
                source = qtir.scratch(plan.rows * plan.columns * conv.in_c + plan.slack, plan.dtype)
                self._stage(source, image, T.Bind(top))
                at: Any = tir.index(0)
            else:
                source = self.args.data
                at = T.Bind((image * conv.in_h + top) * (conv.in_w * conv.in_c))
            self._band(source, at, count, T.Bind((image * conv.out_h + first) * conv.out_w))

    def _stage(self, stage: Any, image: Any, top: Any) -> None:
        """Copy the rows from ``top`` on, with padding around them."""
        plan, conv = self.plan, self.conv
        pitch = plan.columns * conv.in_c
        left = min(conv.pad[1], plan.columns)
        inside = min(conv.in_w, plan.columns - left)
        with tir.loop(plan.rows) as row:
            y, at = T.Bind(top + row), T.Bind(row * pitch)

            with T.If(tirx.all(y >= 0, y < conv.in_h)):
                with T.Then():
                    source = T.Bind((image * conv.in_h + y) * (conv.in_w * conv.in_c))
                    self._fill(stage, at, left * conv.in_c)
                    self._copy(stage, at + left * conv.in_c, source, inside * conv.in_c)
                    done = left + inside
                    self._fill(stage, at + done * conv.in_c, (plan.columns - done) * conv.in_c)
                with T.Else():
                    self._fill(stage, at, pitch)

    def _copy(self, stage: Any, at: Any, source: Any, count: int) -> None:
        def copy(start: Any, width: int) -> None:
            value = self._converted(self.args.data[tir.vector(source + start, width)], width)
            tir.store(stage, value, tir.vector(at + start, width))

        _pieces(count, copy)

    def _fill(self, stage: Any, at: Any, count: int) -> None:
        value = self.conv.data_zero + self.plan.offset
        _pieces(
            count,
            lambda start, width: tir.store(
                stage, qtir.const(value, self.plan.dtype, width), tir.vector(at + start, width)
            ),
        )

    def _converted(self, value: Any, lanes: int) -> Any:
        """Elements of the data as they are multiplied."""
        if self.plan.dtype == "int16":
            return qtir.convert(value, "int16", lanes)
        if not self.plan.offset:
            return value
        return qtir.reinterpret(value ^ qtir.const(128, "uint8", lanes), "int8", lanes)

    def _band(self, source: Any, at: Any, count: Any, window: Any) -> None:
        """``count`` rows of output whose first window is number ``window`` of all."""
        plan, conv = self.plan, self.conv
        step = conv.stride[1] * conv.in_c
        pitch = conv.stride[0] * plan.columns * conv.in_c
        axes = {
            "rows": [(count, 0, 1, 1)],
            "windows": _cut(conv.out_w, plan.tile),
            "channels": _cut(conv.in_c, plan.lanes, overlap=True),
        }

        def emit(names: list[str], chosen: dict[str, tuple[Any, int]]) -> None:
            if names:
                for extent, first, each, size in axes[names[0]]:
                    with tir.loop(extent) as turn:
                        emit(names[1:], chosen | {names[0]: (first + turn * each, size)})
                return
            (row, _), (column, windows), (channel, filters) = (chosen[name] for name in axes)
            start = at + row * pitch + column * step + channel
            self._tile(source, start, window + row * conv.out_w + column, windows, channel, filters)

        emit(_NESTS[plan.order], {})

    def _tile(self, source: Any, at: Any, window: Any, windows: int, channel: Any, filters: int) -> None:
        """``windows`` windows of one group of channels: all taps unrolled, sums in registers."""
        plan, conv, lanes, args = self.plan, self.conv, self.plan.lanes, self.args
        at, window, channel = T.Bind(at), T.Bind(window), T.Bind(tir.index(channel))
        sums = qtir.registers(windows * lanes)
        slots = [tir.vector(w * lanes, lanes) for w in range(windows)]
        bias = T.Bind(args.bias[tir.vector(channel, lanes)])
        for slot in slots:
            tir.store(sums, bias, slot)
        loaded: dict[tuple[int, int], Any] = {}

        def data(i: int, column: int) -> Any:
            if (i, column) not in loaded:
                offset = (i * conv.dilation[0] * plan.columns + column) * conv.in_c
                value = source[tir.vector(at + offset, lanes)]
                loaded[i, column] = T.Bind(value if plan.staged else self._converted(value, lanes))
            return loaded[i, column]

        taps = [(i, j) for i in range(conv.kh) for j in range(conv.kw)]
        together = 2 if plan.multiply == PAIRS else 1
        # "pairs" adds two products in 16 bits first, "wide" multiplies to 32 bits at once.
        product = "int16" if plan.multiply == PAIRS else "int32"
        for start in range(0, len(taps), together):
            some = taps[start : start + together]
            weights = [
                T.Bind(args.weights[tir.vector((i * conv.kw + j) * conv.in_c + channel, lanes)])
                for i, j in some
            ]
            for w, slot in enumerate(slots):
                part = None
                for (i, j), weight in zip(some, weights, strict=True):
                    value = data(i, w * conv.stride[1] + j * conv.dilation[1])
                    term = qtir.convert(value, product, lanes) * qtir.convert(weight, product, lanes)
                    part = term if part is None else part + term
                tir.store(sums, sums[slot] + qtir.convert(part, "int32", lanes), slot)
        rows = [
            [sums[tir.vector(w * lanes + quad, QUAD)] for quad in range(0, lanes, QUAD)]
            for w in range(windows)
        ]
        self.finish.block(rows, channel, filters, T.Bind(window * conv.in_c + channel), conv.in_c)


def _cut(extent: int, size: int, overlap: bool = False) -> list[tuple[Any, int, int, int]]:
    """(parts, first, step, size of each) of whole parts and of what is left.

    With ``overlap`` the latter begins so early that it is whole, if there are as many elements.
    """
    whole, rest = divmod(extent, size)
    found: list[tuple[Any, int, int, int]] = [(whole, 0, size, size)] if whole else []
    if rest and overlap:
        found.append((1, max(0, extent - size), 0, min(extent, size)))
    elif rest:
        found.append((1, whole * size, 0, rest))
    return found


def _pieces(count: int, emit: Callable[[Any, int], None]) -> None:
    """``emit(start, width)`` for ``count`` elements: whole copies in a loop, then smaller ones."""
    whole = count // COPIED
    if whole:
        with tir.loop(whole) as turn:
            emit(turn * COPIED, COPIED)
    start = whole * COPIED
    for width in (8, 4, 2, 1):
        if count - start & width:
            emit(tir.index(start), width)
            start += width
