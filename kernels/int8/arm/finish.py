"""From a block of int32 sums to stored results on Arm, eight at a time in the narrowest type that fits."""

from __future__ import annotations

from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Index, Vector
from kernels.emit.vectors import pieces, shuffle
from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.operands import FLIP
from kernels.int8.requantize import Multiply, fixed_point_multiply, why_inexact
from kernels.int8.tir import QArguments
from kernels.target import Target
from kernels.workload.qconv2d import LIMITS

_NARROWING = 2.0
"""Vector instructions from four scaled sums to stored bytes."""
_SCALING = {"none": 0, "shift": 1, "high": 2, "exact": 5, "arm": 6, "int32": 7, "int64": 16}
"""Vector instructions to scale four sums."""
_ARM32 = {
    "sqdmulh": "vqdmulh",
    "sqrdmulh": "vqrdmulh",
    "srshl": "vrshifts",
    "sqshl": "vqshifts",
    "sqxtn": "vqmovns",
    "sqxtun": "vqmovnsu",
}
"""What LLVM calls these instructions on 32-bit Arm."""


class Finish:
    """Requantizes sums by fours and stores them.

    ``how`` is how they are scaled (``requantize.choices``); ``arm32`` stands for a target of 32 bits. Reads
    scales in fours, so these are filled up to a multiple of four after any filter.
    """

    def __init__(self, args: QArguments, how: str, arm32: bool) -> None:
        self.args, self.conv, self.how, self.arm32 = args, args.conv, how, arm32

    def block(self, sums: list[list[Vector]], first: Index, columns: int, out: Index, pitch: int) -> None:
        """Store ``sums`` (rows of groups of four, for filters from ``first`` on) from element ``out`` on.

        ``pitch`` is the distance between rows in the output. The last group may have lanes too many.
        """
        quads = len(sums[0])
        rows = range(len(sums))
        scales = [self._scale(first + quad * QUAD) for quad in range(quads)]
        for quad in range(0, quads - 1, 2):
            for row in rows:
                pair = [scales[q](sums[row][q]) for q in (quad, quad + 1)]
                count = min(2 * QUAD, columns - quad * QUAD)
                self._store(self._narrow(pair), 0, out + row * pitch + quad * QUAD, count)
        if quads % 2:
            quad, count = quads - 1, columns - (quads - 1) * QUAD
            for row in range(0, len(sums), 2):
                both = [scales[quad](sums[r][quad]) for r in rows[row : row + 2]]
                narrow = self._narrow(both)
                for at in range(len(both)):
                    where = out + (row + at) * pitch + quad * QUAD
                    self._store(narrow, at * QUAD, where, count)

    def _scale(self, first: Index) -> Multiply:
        """The multiply by the scales of four filters."""
        args = self.args
        if self.conv.is_dynamic:
            return args.real(first, QUAD)
        if args.multiplier is None:
            return lambda value: value
        if self.conv.per_channel:
            scale = [b[tir.vector(first, QUAD)] for b in (args.multiplier, args.shift)]
        else:
            scale = [tir.splat(b[0], QUAD) for b in (args.multiplier, args.shift)]
        return self._multiply(*map(T.Bind, scale))

    def _multiply(self, multiplier: Vector, shift: Vector) -> Multiply:
        """The multiply for constants of ``NeonPlan.constants``, the exact ways in one to five instructions.

        srshl rounds ties up. The upper half of the doubled product, sqdmulh's, drops less than one of its
        units. What srshl adds before it shifts is whole units from a shift of one to the right on, so the
        result is rounded once. Without a shift to the right sqrdmulh rounds. Shifts to the left come first,
        and may saturate.
        """
        if why_inexact(self.how) or self.how == "int64":
            return fixed_point_multiply(multiplier, -shift, self.how, QUAD)
        if self.how == "shift":
            return lambda value: self._neon("srshl", value, shift)
        if self.how == "high":
            return lambda value: self._neon("srshl", self._neon("sqdmulh", value, multiplier), shift)
        zero = tir.const(0, lanes=QUAD)
        left, right = T.Bind(tirx.Max(shift, zero)), T.Bind(tirx.Min(shift, zero))

        def multiply(value: Vector) -> Vector:
            shifted = T.Bind(self._neon("sqshl", value, left))
            low, rounded = (self._neon(name, shifted, multiplier) for name in ("sqdmulh", "sqrdmulh"))
            return self._neon("srshl", tirx.Select(right < zero, low, rounded), right)

        return multiply

    def _neon(self, name: str, *values: Vector, dtype: str = "int32x4", kind: str = "v4i32") -> Vector:
        name = f"arm.neon.{_ARM32[name]}" if self.arm32 else f"aarch64.neon.{name}"
        return tirx.call_llvm_pure_intrin(dtype, f"llvm.{name}.{kind}", *values)

    def _narrow(self, quads: list[Vector]) -> Vector:
        """One or two groups of four as one vector of the output's type, with its zero point and clamp;
        one alone fills both halves."""
        conv, lanes = self.conv, 2 * QUAD
        if not conv.scale_length:
            return shuffle([quads[0], quads[-1]], range(lanes))
        halves = [self._neon("sqxtn", quad, dtype="int16x4", kind="v4i16") for quad in quads]
        value = shuffle([halves[0], halves[-1]], range(lanes))
        flipped = conv.out_zero == LIMITS["int8"][0]
        if conv.out_zero and not flipped:
            zero = tir.const(conv.out_zero, "int16", lanes)
            value = tirx.call_llvm_pure_intrin("int16x8", "llvm.sadd.sat.v8i16", value, zero)
        # As clamps LLVM would take this apart where only half of it is stored.
        unsigned = flipped or conv.out_dtype == "uint8"
        narrow, dtype = ("sqxtun", "uint8x8") if unsigned else ("sqxtn", "int8x8")
        value = self._neon(narrow, value, dtype=dtype, kind="v8i8")
        if flipped:  # cheaper than to add the zero point to 16 bits
            value = tir.reinterpret(value ^ tir.const(FLIP, "uint8", lanes), "int8", lanes)
        if conv.clamp is None:
            return value
        low, high = (tir.const(limit, conv.out_dtype, lanes) for limit in conv.clamp)
        return tirx.Max(tirx.Min(value, high), low)

    def _store(self, values: Vector, start: int, at: Index, count: int) -> None:
        """``count`` of the ``values`` from lane ``start`` on."""
        values = T.Bind(values)
        if count == 2 * QUAD:
            tir.store(self.args.out, values, tir.vector(at, count))
            return
        for first, width in pieces(count):
            lanes = [tir.index(start + first + lane) for lane in range(width)]
            tir.store(self.args.out, tirx.Shuffle([values], lanes), tir.vector(at + first, width))


def finish_cycles(how: str, target: Target) -> float:
    """What four sums take from registers to the results."""
    return (_SCALING[how] + _NARROWING) / target.fmas_per_cycle
