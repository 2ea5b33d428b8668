"""From int32 sums to results: scaled, limited and narrowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kernels.emit import tir
from kernels.emit.tir import const, convert
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Index, Vector
from kernels.emit.vectors import shuffle
from kernels.int8.requantize import Multiply, fixed_point_multiply
from kernels.int8.tir import QArguments


class Finish:
    """Turns int32 sums of filters, bias included, into results; sums are the results where there is no scale.

    ``how`` is how they are scaled (``requantize.choices``), ``bits`` the size of a vector.
    """

    def __init__(self, args: QArguments, how: str, bits: int) -> None:
        self._args, self._conv, self._how = args, args.conv, how
        self._bits, self._lanes = bits, bits // 32

    def _multiply(self, multiplier: Vector, shift: Vector) -> Multiply:
        """How a vector of sums is scaled."""
        return fixed_point_multiply(multiplier, shift, self._how, self._lanes)

    def _scaling(self, first: Index) -> Multiply:
        both = (self._args.multiplier, self._args.shift)
        if self._conv.per_channel:
            multiplier, shift = (buffer[tir.vector(first, self._lanes)] for buffer in both)
        else:
            multiplier, shift = (tir.splat(buffer[0], self._lanes) for buffer in both)
        return self._multiply(multiplier, shift)

    def pair(self, first: Index) -> Callable[[Sequence[Vector]], Vector]:
        """A function from the sums of two vectors of filters, from ``first`` on, to one vector of results.

        They are multiplied one by one, as wider ones would not be recognised as the product's upper half,
        and limited and stored together, which halves the instructions for that.
        """
        conv, lanes = self._conv, 2 * self._lanes
        if conv.is_dynamic:
            reals = [self._args.real(first + vector * self._lanes, self._lanes) for vector in range(2)]
            return lambda sums: shuffle(
                [real(each) for real, each in zip(reals, sums, strict=True)], range(lanes)
            )
        if not conv.scale_length:
            return lambda sums: shuffle(sums, range(lanes))
        scales = [self._scaling(first + vector * self._lanes) for vector in range(2)]

        def results(sums: Sequence[Vector]) -> Vector:
            value = shuffle([scale(each) for scale, each in zip(scales, sums, strict=True)], range(lanes))
            return self._limited(value, lanes)

        return results

    def four(self, first: Index) -> Callable[[Sequence[Vector]], Iterator[Vector]]:
        """A function from up to four vectors of sums, all of the filters from ``first`` on, to the results of
        each."""
        if self._conv.is_dynamic:
            real = self._args.real(first, self._lanes)
            return lambda sums: map(real, sums)
        if not self._conv.scale_length:
            return lambda sums: map(T.Bind, sums)
        return self._narrowed(self._scaling(first))

    def _narrowed(self, scale: Multiply) -> Callable[[Sequence[Vector]], Iterator[Vector]]:
        """What ``four`` does with 8-bit results."""
        return lambda sums: (self._limited(scale(value), self._lanes) for value in sums)

    def _limited(self, value: Vector, lanes: int) -> Vector:
        if self._conv.out_zero:
            value = value + const(self._conv.out_zero, lanes=lanes)
        low, high = self._conv.out_range
        value = tirx.Max(tirx.Min(value, const(high, lanes=lanes)), const(low, lanes=lanes))
        return T.Bind(convert(value, self._conv.out_dtype, lanes))
