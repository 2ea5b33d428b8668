"""From int32 sums to 8-bit results: the fixed-point multiply in each way that it can be done (seed 002).

The multiply is ``round(value * multiplier * 2^(-31 - shift))``. Ways, words of the knob ``requant``:

- ``exact``: int64 throughout, ties up, any shift;
- ``high``: the same bits where scales are small (shift >= 2), from the upper half of the product alone;
- ``shift``: the same bits where scales are powers of two;
- ``arm``: AArch64's sqrdmulh, nudge and srshl; rounds twice, so at most one off;
- ``int32``: no product wider than 32 bits; value and multiplier are rounded first, so at most one off;
- ``int64``: ``exact`` as the seed begins with it, for benches; Arm's own does the same in fewer instructions.
"""

from __future__ import annotations

from collections.abc import Callable

from kernels.emit.tir import const, convert, of_type
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Vector
from kernels.isa.arm import AARCH64
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

KEPT_BITS = 6
"""How many bits below a quantum ``int32`` keeps of a value: its error stays below 2^-6 quanta."""
_INEXACT = {"arm": "sqrdmulh and srshl round twice", "int32": "int32 products round the multiplier"}


def choices(conv: QConv2d, target: Target) -> list[int | str]:
    """The values of the knob ``requant``, exact ones first.

    ``int32`` is for scales of which nothing is known, and on AArch64 for all that are no powers of two:
    elsewhere ``high`` does the same exactly with fewer instructions where scales are small.
    """
    if not conv.scale_length:
        return ["none"]
    if conv.scale == "power":
        return ["shift"]
    relaxed: list[int | str] = ["arm", "int32"] if target.isa is AARCH64 else []
    return ["high", *relaxed] if conv.scale == "small" else ["exact", *(relaxed or ["int32"])]


def why_inexact(how: str) -> str | None:
    """Why results of ``how`` may be one off, or None when they are not."""
    return _INEXACT.get(how)


Multiply = Callable[[Vector], Vector]


def fixed_point_multiply(multiplier: Vector, shift: Vector, how: str, lanes: int) -> Multiply:
    """A function that multiplies int32 vectors (of ``lanes``; one is a scalar) by one scale, or one a lane.

    What depends on the scale alone is computed here, once. Multipliers are not negative, shifts are from -31
    to 31. Results that leave int32 saturate at 2^30 at least (``exact``, ``arm``), those of ``int32`` do from
    256 on: it is for 8-bit results. Raises ValueError for an unknown way.
    """
    if how not in _WAYS:
        raise ValueError(f"unknown way {how!r} to multiply by a scale; there are {sorted(_WAYS)}")
    return _WAYS[how](T.Bind(multiplier), T.Bind(shift), lanes)


def _exact(multiplier: Vector, shift: Vector, lanes: int) -> Multiply:
    factor = T.Bind(convert(multiplier, "int64", lanes))
    total = T.Bind(convert(shift, "int64", lanes) + const(31, "int64", lanes))
    one = const(1, "int64", lanes)
    half = T.Bind(tirx.shift_right(tirx.shift_left(one, total), one))

    def multiply(value: Vector) -> Vector:
        product = convert(value, "int64", lanes) * factor
        scaled = T.Bind(tirx.shift_right(product + half, total))
        # Scales above one can leave int32.
        scaled = tirx.Min(scaled, const(1 << 30, "int64", lanes))
        return convert(tirx.Max(scaled, const(-(1 << 30), "int64", lanes)), "int32", lanes)

    return multiply


def _high(multiplier: Vector, shift: Vector, lanes: int) -> Multiply:
    factor = T.Bind(convert(multiplier, "int64", lanes))
    # The half to add is a multiple of 2^32, so the product's lower half does not matter.
    half = T.Bind(tirx.shift_left(const(1, lanes=lanes), shift - const(2, lanes=lanes)))
    rest = T.Bind(shift - const(1, lanes=lanes))

    def multiply(value: Vector) -> Vector:
        product = convert(value, "int64", lanes) * factor
        upper = convert(tirx.shift_right(product, const(32, "int64", lanes)), "int32", lanes)
        return tirx.shift_right(upper + half, rest)

    return multiply


def _power(_: Vector, shift: Vector, lanes: int) -> Multiply:
    def multiply(value: Vector) -> Vector:
        # Halving last, and by a difference: nothing overflows, and ties go up.
        twice = T.Bind(tirx.shift_right(value, shift))
        return twice - tirx.shift_right(twice, const(1, lanes=lanes))

    return multiply


def _arm(multiplier: Vector, shift: Vector, lanes: int) -> Multiply:
    zero, last = const(0, lanes=lanes), const(31, lanes=lanes)
    left, back = T.Bind(tirx.Max(zero - shift, zero)), T.Bind(tirx.Min(zero - shift, zero))

    def neon(name: str, one: Vector, other: Vector) -> Vector:
        return tirx.call_llvm_pure_intrin(of_type("int32", lanes), f"llvm.aarch64.neon.{name}", one, other)

    def multiply(value: Vector) -> Vector:
        scaled = T.Bind(neon("sqrdmulh", neon("sqshl", value, left), multiplier))
        # srshl rounds ties up; so that two roundings up do not add, negative values are nudged down.
        nudge = tirx.shift_right(tirx.bitwise_and(scaled, back), last)
        return neon("srshl", neon("sqadd", scaled, nudge), back)

    return multiply


def _int32(multiplier: Vector, shift: Vector, lanes: int) -> Multiply:
    def c(value: int) -> Vector:
        return const(value, lanes=lanes)

    factor = T.Bind(tirx.shift_right(tirx.shift_right(multiplier, c(15)) + c(1), c(1)))
    # As many bits as can go with what is left still good for a 2^-KEPT_BITS of a quantum.
    drop = T.Bind(tirx.Max(shift - c(KEPT_BITS), c(0)))
    half_drop = T.Bind(tirx.shift_right(tirx.shift_left(c(1), drop), c(1)))
    rest = T.Bind(tirx.Max(shift + c(15) - drop, c(1)))
    half_rest = T.Bind(tirx.shift_left(c(1), rest - c(1)))

    def multiply(value: Vector) -> Vector:
        # Values that saturate an 8-bit result need not be told apart; the first limit keeps room to round.
        room = tirx.Min(value, c((1 << 31) - 1) - half_drop)
        rounded = tirx.shift_right(room + half_drop, drop)
        rounded = tirx.Max(tirx.Min(rounded, c(1 << 15)), c(-(1 << 15)))
        return tirx.shift_right(rounded * factor + half_rest, rest)

    return multiply


_WAYS = {"exact": _exact, "high": _high, "shift": _power, "arm": _arm, "int32": _int32, "int64": _exact}
