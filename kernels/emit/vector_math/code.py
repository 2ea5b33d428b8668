"""What the functions are written in: straight code in LLVM's language, of one element or a vector of them.

To TVM an expression is a tree, in which whatever is used twice is computed and simplified twice, and so on
inside it, even where it has a name. Here every value is one line. Operators on values write the lines.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Format:
    """An IEEE type: LLVM's names of it and of its bits, how many these are and how many follow the point."""

    name: str
    whole: str
    bits: int
    fraction: int

    @property
    def bias(self) -> int:
        """What is added to a stored exponent."""
        return (1 << (self.bits - self.fraction - 2)) - 1

    @property
    def one(self) -> int:
        """The bits of 1.0."""
        return self.bias << self.fraction

    @property
    def infinity(self) -> int:
        """The bits of infinity; all above are NaN."""
        return (2 * self.bias + 1) << self.fraction

    @property
    def rounder(self) -> float:
        """Added to a number of less than a quarter of this it leaves whole numbers, in the lowest bits."""
        return 1.5 * 2.0**self.fraction


SINGLE, DOUBLE = Format("float", "i32", 32, 23), Format("double", "i64", 64, 52)
FORMATS = {each.bits: each for each in (SINGLE, DOUBLE)}
AVX512 = "llvm.x86.avx512.mask."
"""How LLVM's intrinsics for AVX-512 begin."""
_MNEMONICS = {"+": "add", "-": "sub", "*": "mul", "/": "div"}


@dataclass
class Code:
    """The lines of one function of ``lanes`` elements of ``format``; of -n, where n fill the smallest vector.

    A machine is ``complete`` that has instructions for square roots and rounding; one that ``scales`` has
    AVX-512's for products with powers of two and for what is left of a number without its whole part.
    One that ``chooses`` keeps a bound by a comparison and a choice.
    """

    format: Format
    lanes: int
    complete: bool = True
    scales: bool = False
    chooses: bool = True
    lines: list[str] = field(default_factory=list)

    def type(self, element: str) -> str:
        """LLVM's name of a vector of ``element``."""
        if self.lanes == 1:
            return element
        return f"<{self.lanes} x {element}>" if self.lanes > 0 else f"<vscale x {-self.lanes} x {element}>"

    def suffix(self, format: Format) -> str:
        """How the names of LLVM's intrinsics for vectors of ``format`` end."""
        width = "" if self.lanes == 1 else f"v{self.lanes}" if self.lanes > 0 else f"nxv{-self.lanes}"
        return f"{width}f{format.bits}"

    def line(self, element: str, text: str) -> Value:
        """A new value of ``element`` that ``text`` computes."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return Value(self, element, name)

    def constant(self, element: str, value: float) -> Value:
        """``value`` in every lane."""
        if element in (SINGLE.name, DOUBLE.name):
            if element == SINGLE.name:
                (value,) = struct.unpack("f", struct.pack("f", value))
            text = f"0x{struct.pack('>d', value).hex()}"
        else:
            text = str(int(value))
        return Value(self, element, text if self.lanes == 1 else f"splat ({element} {text})")

    def number(self, value: float) -> Value:
        """A constant of the function's own format."""
        return self.constant(self.format.name, value)


@dataclass(frozen=True)
class Value:
    """A value in some code; numbers that meet it in an operator are constants of its type."""

    code: Code
    element: str
    name: str

    def __add__(self, other: Value | float) -> Value:
        return self._with("+", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._with("-", other)

    def __mul__(self, other: Value | float) -> Value:
        return self._with("*", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._with("/", other)

    def __rsub__(self, other: float) -> Value:
        return self.of(other) - self

    def __rtruediv__(self, other: float) -> Value:
        return self.of(other) / self

    def __neg__(self) -> Value:
        return self.code.line(self.element, f"fneg {self.type} {self.name}")

    def __and__(self, other: Value | int) -> Value:
        return self._line("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._line("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._line("xor", other)

    def __lshift__(self, other: int) -> Value:
        return self._line("shl", other)

    def __invert__(self) -> Value:
        """Of conditions."""
        return self._line("xor", -1)

    def shifted_in_zeros(self, count: int) -> Value:
        """Bits shifted to the right."""
        return self._line("lshr", count)

    def __lt__(self, other: Value | float) -> Value:
        return self._compared("lt", other)

    def __gt__(self, other: Value | float) -> Value:
        return self._compared("gt", other)

    def equals(self, other: Value | float) -> Value:
        """Whether both are the same."""
        return self._compared("eq", other)

    @property
    def type(self) -> str:
        """LLVM's name of it."""
        return self.code.type(self.element)

    @property
    def format(self) -> Format:
        """The IEEE type that it is, or whose bits it is."""
        return SINGLE if self.element in (SINGLE.name, SINGLE.whole) else DOUBLE

    def of(self, other: Value | float) -> Value:
        """``other`` as a value beside this one."""
        return other if isinstance(other, Value) else self.code.constant(self.element, other)

    def choose(self, then: Value, otherwise: Value | float) -> Value:
        """``then`` where this holds, ``otherwise`` elsewhere; both are computed."""
        last = then.of(otherwise)
        return self.code.line(
            then.element, f"select {self.type} {self.name}, {then.type} {then.name}, {last.type} {last.name}"
        )

    def least(self, other: Value) -> Value:
        """The smaller of both; NaN where one is NaN."""
        return self._extreme("min", other)

    def most(self, other: Value) -> Value:
        """The larger of both; NaN where one is NaN."""
        return self._extreme("max", other)

    def at_most(self, bound: Value | float) -> Value:
        """This or, where that is smaller, ``bound``, which is a number; NaN stays."""
        return self._bounded("min", self.of(bound))

    def at_least(self, bound: Value | float) -> Value:
        """This or, where that is larger, ``bound``, which is a number; NaN stays."""
        return self._bounded("max", self.of(bound))

    def _bounded(self, which: str, bound: Value) -> Value:
        if not self.code.chooses:
            return self._extreme(which, bound)
        return (bound < self if which == "min" else bound > self).choose(bound, self)

    def _extreme(self, which: str, other: Value) -> Value:
        name = f"llvm.{which}imum.{self.code.suffix(self.format)}"
        operands = f"{self.type} {self.name}, {other.type} {other.name}"
        # No signed zeros: else LLVM orders those as well, by more instructions where it has none for it.
        return self.code.line(self.element, f"call nsz {self.type} @{name}({operands})")

    def of_bits(self, bits: int) -> Value:
        """Some bits beside this value's own."""
        return self.code.constant(self.format.whole, bits)

    def bits(self) -> Value:
        """The bits of a number."""
        return self._cast("bitcast", self.format.whole)

    def number(self) -> Value:
        """The number of some bits."""
        return self._cast("bitcast", self.format.name)

    def low_half(self) -> Value:
        """The lower 32 of 64 bits."""
        return self._cast("trunc", SINGLE.whole)

    def to(self, format: Format) -> Value:
        """A number in another format."""
        if format == self.format:
            return self
        return self._cast("fpext" if format.bits > self.format.bits else "fptrunc", format.name)

    def call(self, intrinsic: str) -> Value:
        """What LLVM's intrinsic of that name makes of it."""
        name = f"llvm.{intrinsic}.{self.code.suffix(self.format)}"
        return self.code.line(self.element, f"call {self.type} @{name}({self.type} {self.name})")

    def magnitude(self) -> Value:
        """The bits of a number without its sign."""
        return self.bits() & ((1 << (self.format.bits - 1)) - 1)

    def absolute(self) -> Value:
        """The number without its sign."""
        return self.magnitude().number()

    def with_sign(self, sign: Value) -> Value:
        """This number, which is not negative, with the sign of another."""
        top = sign.bits() & -(1 << (self.format.bits - 1))
        return (self.bits() | top).number()

    def is_nan(self) -> Value:
        """Comparisons of floats will not do: TVM lets LLVM assume that there are no NaNs."""
        return self.magnitude() > self.format.infinity

    def polynomial(self, coefficients: Sequence[float]) -> Value:
        """The sum of ``coefficients[i] * self**i``."""
        *rest, last = coefficients
        total = self * rest[-1] if last == 1.0 else self * last + rest[-1]
        for coefficient in reversed(rest[:-1]):
            total = total * self + coefficient
        return total

    def rounded(self) -> tuple[Value, Value]:
        """The whole number nearest to this one, and the same plus ``rounder``, for ``power_of_two``."""
        turns = self + self.format.rounder
        return turns - self.format.rounder, turns

    def power_of_two(self) -> Value:
        """``2**n`` of n plus ``rounder``, for an n that is the exponent of a normal number."""
        return ((self.bits() << self.format.fraction) + self.format.one).number()

    def scaled(self, n: Value) -> Value | None:
        """This times 2 to the next whole number below ``n``, rounded once; None where no instruction does
        that."""
        return self._avx512("scalef", f"{n.type} {n.name}")

    def fraction(self) -> Value | None:
        """What this is above the next whole number below; None where no instruction says so."""
        return self._avx512("reduce", "i32 1")

    def _avx512(self, mnemonic: str, operand: str) -> Value | None:
        bits = self.format.bits * self.code.lanes
        if not self.code.scales or bits not in (128, 256, 512):
            return None
        kind, mask = self.type, f"i{max(8, self.code.lanes)} -1"
        rounding = ", i32 4" if bits == 512 else ""
        name = f"{AVX512}{mnemonic}.{'ps' if self.format is SINGLE else 'pd'}.{bits}"
        operands = f"{kind} {self.name}, {operand}, {kind} {self.name}, {mask}{rounding}"
        return self.code.line(self.element, f"call {kind} @{name}({operands})")

    def _with(self, operator: str, other: Value | float) -> Value:
        kind = "f" if self.element in (SINGLE.name, DOUBLE.name) else ""
        return self._line(kind + _MNEMONICS[operator], other)

    def _line(self, mnemonic: str, other: Value | float) -> Value:
        return self.code.line(self.element, f"{mnemonic} {self.type} {self.name}, {self.of(other).name}")

    def _compared(self, how: str, other: Value | float) -> Value:
        floats = self.element in (SINGLE.name, DOUBLE.name)
        word = f"fcmp o{how}" if floats else f"icmp {how if how == 'eq' else 's' + how}"
        return self.code.line("i1", f"{word} {self.type} {self.name}, {self.of(other).name}")

    def _cast(self, mnemonic: str, element: str) -> Value:
        return self.code.line(element, f"{mnemonic} {self.type} {self.name} to {self.code.type(element)}")
