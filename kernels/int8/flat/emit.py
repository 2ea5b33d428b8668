"""The code of a depthwise convolution along runs of bytes: the padded copy, and blocks of 128 results.

Bytes of four taps are brought side by side by instructions that take even and odd ones apart, so a vector of
sums has each fourth result of a block; those that narrow sums to bytes put them in order again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, tir
from kernels.emit.tir import const, vector
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Index, Vector
from kernels.int8.flat.plan import UNIT, FlatPlan, Phase
from kernels.int8.hvx import instructions as hvx
from kernels.int8.hvx.instructions import BYTES, WORDS, Memory, pinned
from kernels.int8.requantize import Multiply
from kernels.int8.tir import QArguments


def emit(plan: FlatPlan, args: QArguments) -> None:
    """The whole function."""
    with code_shape.linked(), tir.with_llvm(hvx.LLVM):
        _Flat(plan, args).emit()


class _Flat:
    """The loops, and what is in them."""

    def __init__(self, plan: FlatPlan, args: QArguments) -> None:
        self.plan, self.args, self.conv = plan, args, plan.conv

    def emit(self) -> None:
        """Bands, phases, rows, blocks."""
        plan, conv, rows = self.plan, self.conv, self.plan.knobs.rows
        of_image = ceil_div(conv.out_h, rows)
        with tir.loop(plan.bands, plan.threads) as number:
            image, first = T.Bind(number // of_image), T.Bind(number % of_image * rows)
            if of_image * rows != conv.out_h:
                # The last band ends with the last row and computes some rows again.
                first = T.Bind(tir.least(first, conv.out_h - rows))
            self.copy = Memory(plan.copied)
            self.weights = Memory(plan.products_a_block * UNIT * BYTES)
            out = T.Bind((image * conv.out_h + first) * plan.row)
            # Of a constant LLVM would make calls of ``memset``.
            word = np.full(4, conv.data_zero + plan.offset, np.uint8).view(np.int32).item()
            blank = T.Bind(tir.splat(code_shape.fresh(word, first), WORDS))
            self._copy_rows(image, first, blank)
            if plan.knobs.touch:
                self._touch(out, blank)
            before = 0
            for phase in plan.phases:
                self._phase(phase, before, out)
                before += phase.number

    def _copy_rows(self, image: Index, first: Index, blank: Vector) -> None:
        """The rows of the input that the band reads, padded; what is stored past an end is stored over."""
        plan, conv = self.plan, self.conv

        def fill(at: Index, count: int) -> None:
            _by_vectors(ceil_div(count, BYTES), lambda number: self._put(blank, at + number * BYTES))

        with tir.loop(plan.height) as row:
            at = T.Bind(row * plan.pitch)
            line = T.Bind(first * conv.stride[0] + row - conv.pad[0])

            def within(at: Index = at, line: Index = line) -> None:
                source = T.Bind((image * conv.in_h + line) * (conv.in_w * conv.in_c))
                for number, plane in enumerate(plan.planes):
                    start = number * plan.columns * conv.in_c
                    left, right = plan.filled(plane)
                    fill(at + start, left * conv.in_c)
                    self._copy_plane(source, at + start, plane, left, right)
                    fill(at + (start + right * conv.in_c), (plan.columns - right) * conv.in_c)

            def outside(at: Index = at) -> None:
                fill(at, plan.pitch)

            tir.choose(tirx.all(line >= 0, line < conv.in_h), within, outside)

    def _touch(self, out: Index, blank: Vector) -> None:
        """Store to all of the band's results, so that their lines come to L2 as one stream."""
        size = 4 if self.conv.out_dtype == "int32" else 1
        count = self.plan.knobs.rows * self.plan.row * size // BYTES
        _by_vectors(count, lambda number: hvx.write(self.args.out, blank, out + number * (BYTES // size)))

    def _copy_plane(self, source: Index, at: Index, plane: int, left: int, right: int) -> None:
        """Columns from ``left`` to ``right`` of a plane, of the input's row at ``source``."""
        conv, (_, step) = self.conv, self.conv.stride
        begin = (left * step + plane - conv.pad[1]) * conv.in_c
        at = T.Bind(at + left * conv.in_c)
        if step == 1:
            self._copy_run(source, begin, at, (right - left) * conv.in_c)
            return
        # Those of which a whole vector is read inside the row, then the others.
        room = conv.in_w * conv.in_c - BYTES - begin
        whole = max(0, min(right - left, room // (step * conv.in_c) + 1))
        with tir.loop(whole) as column:
            self._copy_run(
                T.Bind(source + column * (step * conv.in_c)),
                begin,
                T.Bind(at + column * conv.in_c),
                conv.in_c,
                True,
            )
        for column in range(whole, right - left):
            self._copy_run(source, begin + column * step * conv.in_c, at + column * conv.in_c, conv.in_c)

    def _copy_run(self, source: Index, begin: int, at: Index, size: int, inside: bool = False) -> None:
        """``size`` bytes from ``begin`` on in the row that begins at ``source``; whole vectors are stored.

        ``inside``: those are in the row too, if one is read from ``begin`` on.
        """
        if size <= 0:
            return
        if size < BYTES:
            start = begin if inside else min(begin, self.conv.in_w * self.conv.in_c - BYTES)
            value = self._taken(source + start)
            self._put(pinned("vror", value, const(begin - start)) if begin > start else value, at)
            return

        def one(number: Index) -> None:
            self._put(self._taken(source + (begin + number * BYTES)), at + number * BYTES)

        _by_vectors(size // BYTES, one)
        if size % BYTES:
            self._put(self._taken(source + (begin + size - BYTES)), at + (size - BYTES))

    def _taken(self, at: Index) -> Vector:
        """128 bytes of the input, unsigned."""
        value = hvx.read(self.args.data, at)
        return hvx.flipped(value) if self.plan.offset else value

    def _put(self, value: Vector, at: Index) -> None:
        T.evaluate(tirx.call_extern("void", hvx.WRITE, self.copy.address(at), value))

    def _phase(self, phase: Phase, before: int, out: Index) -> None:
        """All blocks of the phases of one kind, before which there are ``before``."""
        plan, knobs = self.plan, self.plan.knobs
        wide = min(knobs.wide, phase.blocks)
        size = plan.products_a_block * UNIT
        with tir.loop(phase.number) as number:
            packed = T.Bind((number + before) * (size * BYTES))
            _by_vectors(
                size,
                lambda at: self.weights.save(hvx.read(self.args.weights, packed + at * BYTES), at * BYTES),
            )
            constants = T.Bind((number + before) * BYTES)
            scales = self._scales(constants)
            start = T.Bind(phase.first + number * BYTES)
            with (
                tir.loop(ceil_div(knobs.rows, knobs.tall)) as rows,
                tir.loop(ceil_div(phase.blocks, wide)) as turn,
            ):
                top = T.Bind(tir.least(rows * knobs.tall, knobs.rows - knobs.tall))
                block = tir.least(turn * wide, phase.blocks - wide)
                place = T.Bind(start + block * plan.period)
                weights = code_shape.fresh(0, turn)
                self._blocks(top, place, wide, weights, constants, scales, out)

    def _blocks(
        self,
        top: Index,
        place: Index,
        wide: int,
        weights: Index,
        constants: Index,
        scales: Sequence[Multiply],
        out: Index,
    ) -> None:
        """Blocks from byte ``place`` of a row on, of the rows from ``top`` on."""
        plan, tall = self.plan, self.plan.knobs.tall
        first = T.Bind(top * (self.conv.stride[0] * plan.pitch) + place)
        bias = [T.Bind(self.args.bias[vector(constants + o * WORDS, WORDS)]) for o in range(UNIT)]
        sums = [[list(bias) for _ in range(tall)] for _ in range(wide)]
        number = 0
        for at, rows in enumerate(plan.products):
            data = [self._interleaved(first + i * plan.period, at) for i in range(wide)]
            for row, _ in rows:
                for o in range(UNIT):
                    packed = self.weights.load(weights + (number * UNIT + o) * BYTES)
                    for i in range(wide):
                        total = sums[i][row][o]
                        sums[i][row][o] = pinned("vrmpybusv.acc", total, data[i][o], packed)
                number += 1
        for i in range(wide):
            for row in range(tall):
                to = T.Bind(out + (top + row) * plan.row + place + i * plan.period)
                self._finish(sums[i][row], scales, to)

    def _interleaved(self, first: Index, number: int) -> list[Vector]:
        """The bytes of four taps side by side: four vectors, of each fourth byte."""
        plan = self.plan
        taps = plan.taps[number * UNIT : (number + 1) * UNIT]
        found = {tap: self._data(first + plan.at(tap)) for tap in taps}
        one, two, three, four = [found[tap] for tap in (*taps, *[taps[-1]] * (UNIT - len(taps)))]
        low, high = _apart("vshufoeb", one, two), _apart("vshufoeb", three, four)
        (zero, second), (first_, third) = (_apart("vshufoeh", a, b) for a, b in zip(low, high, strict=True))
        return [zero, first_, second, third]

    def _data(self, at: Index) -> Vector:
        if self.plan.aligned:
            return self.copy.load(at)
        return T.Bind(tirx.call_extern("int32x32", hvx.READ, self.copy.address(at)))

    def _scales(self, constants: Index) -> list[Multiply]:
        """How each vector of sums is scaled."""
        conv, args = self.conv, self.args
        if not conv.scale_length:
            return []
        found = []
        for o in range(UNIT if conv.per_channel else 1):
            if conv.per_channel:
                both = [
                    buffer[vector(constants + o * WORDS, WORDS)] for buffer in (args.multiplier, args.shift)
                ]
            else:
                both = [tir.splat(buffer[0], WORDS) for buffer in (args.multiplier, args.shift)]
            multiplier, shift = map(T.Bind, both)
            found.append(hvx.scaling(multiplier, shift, self.plan.knobs.requant))
        return found if conv.per_channel else found * UNIT

    def _finish(self, sums: Sequence[Vector], scales: Sequence[Multiply], to: Index) -> None:
        """Scale, narrow and store a block."""
        conv = self.conv
        if not scales:
            for at, value in enumerate(_in_order(sums)):
                hvx.write(self.args.out, value, to + at * WORDS)
            return
        zero, one, two, three = (scale(value) for scale, value in zip(scales, sums, strict=True))
        added = 128 if conv.out_dtype == "int8" else 0
        halves = [pinned("vsatwh", two, zero), pinned("vsatwh", three, one)]
        if conv.out_zero + added:
            more = tir.reinterpret(const(conv.out_zero + added, "int16", 2 * WORDS), "int32", WORDS)
            halves = [pinned("vaddhsat", half, more) for half in halves]
        low, high = (end + added for end in conv.out_range)
        result = hvx.limited(pinned("vsathub", halves[1], halves[0]), low, high)
        hvx.write(self.args.out, hvx.flipped(result) if added else result, to)


def _by_vectors(count: int, one: Callable[[Index], None]) -> None:
    """``one(number)`` over ``range(count)``."""
    if count:
        with code_shape.kept_loop(count) as number:
            one(number)
            hvx.settle()


def _apart(name: str, even: Vector, odd: Vector) -> tuple[Vector, Vector]:
    """The even elements of both, side by side, and the odd ones."""
    both = T.Bind(tirx.call_llvm_intrin("int32x64", f"llvm.hexagon.V6.{name}.128B", odd, even))
    return pinned("lo", both), pinned("hi", both)


def _in_order(sums: Sequence[Vector]) -> list[Vector]:
    """The words of four vectors by turns."""

    def mixed(one: Vector, two: Vector) -> tuple[Vector, Vector]:
        both = T.Bind(
            tirx.call_llvm_intrin("int32x64", "llvm.hexagon.V6.vshuffvdd.128B", two, one, const(-4))
        )
        return pinned("lo", both), pinned("hi", both)

    even, odd = mixed(sums[0], sums[2]), mixed(sums[1], sums[3])
    return [*mixed(even[0], odd[0]), *mixed(even[1], odd[1])]
