"""How a function refuses what it is given: it ends with an error that names a number that it found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kernels.emit.tir import registers, store, when, with_llvm
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Expr

REFUSE = "tilefleet_refuse_"
"""What functions in LLVM's language are called that leave the error; a hash of their text follows."""
KIND = "IndexError"
INTEGER, TYPE, PADDING, VALUE = 1, 13, 14, 15
"""What a ``TVMFFIAny`` with an integer says of itself, and its fields (``tvm/ffi/c_api.h``)."""
CALL = "tirx.tvm_call_cpacked_lowered"
"""TIR's call of such a function: where that fails, the caller ends with the same error."""
HAND_ON = "tilefleet_hand_on"
_HAND_ON = f"""\
define linkonce_odr i32 @{HAND_ON}(ptr %self, ptr %arguments, i32 %count, ptr %result) noinline {{
  ret i32 -1
}}"""
_LONGEST = 22
"""The digits of any int64, a sign, and the zero behind them."""
TEXTS = "tilefleet.refusals"
"""Attribute of a function: what its refusals need, in order. Its last result has the number then."""


class Refusal:
    """An error that says what is needed, ``needs``, and what is given instead.

    In C it is a code (``tuner/clibrary/plain.py``).
    """

    def __init__(self, needs: str) -> None:
        self.needs = needs
        self.symbol = f"{REFUSE}{hashlib.sha256(needs.encode()).hexdigest()[:16]}"

    @contextmanager
    def known(self) -> Iterator[None]:
        """Within it, what is emitted may end so."""
        with with_llvm(self.text):
            yield

    def emit(self, number: Expr) -> None:
        """End the function with ``number``, an int64.

        Once: each call of what LLVM's text defines declares it anew in what is compiled together.
        """
        integer = {TYPE: tirx.const(INTEGER, "int32"), PADDING: tirx.const(0, "int32"), VALUE: number}
        _call(self.symbol, [integer])

    @staticmethod
    def as_code(symbol: str, code: int) -> str:
        """What a function of a C library has instead of ``text``, as ``symbol``: it returns a ``code``."""
        return f"define linkonce_odr i32 @{symbol}(ptr, ptr, i32, ptr) {{\n  ret i32 {code}\n}}"

    @property
    def text(self) -> str:
        """The function in LLVM's language, as TVM calls packed functions."""
        name, constants = self.symbol, []
        for word, text in (("kind", KIND), ("needs", needs_and(self.needs))):
            data = text.encode() + b"\0"
            escaped = "".join(f"\\{byte:02X}" for byte in data)
            constants.append(f'@{name}_{word} = linkonce_odr constant [{len(data)} x i8] c"{escaped}"')
        return (
            "\n".join(constants)
            + f"""
declare void @TVMFFIErrorSetRaisedFromCStrParts(ptr, ptr, i32)
define linkonce_odr i32 @{name}(ptr %self, ptr %arguments, i32 %count, ptr %result) noinline {{
entry:
  %digits = alloca [{_LONGEST} x i8]
  %parts = alloca [2 x ptr]
  %lies = getelementptr i8, ptr %arguments, i32 8
  %number = load i64, ptr %lies
  %below = icmp slt i64 %number, 0
  %opposite = sub i64 0, %number
  %size = select i1 %below, i64 %opposite, i64 %number
  %end = getelementptr i8, ptr %digits, i32 {_LONGEST - 1}
  store i8 0, ptr %end
  br label %digit
digit:
  %left = phi i64 [%size, %entry], [%rest, %digit]
  %behind = phi ptr [%end, %entry], [%at, %digit]
  %at = getelementptr i8, ptr %behind, i32 -1
  %rest = udiv i64 %left, 10
  %tens = mul i64 %rest, 10
  %ones = sub i64 %left, %tens
  %small = trunc i64 %ones to i8
  %character = add i8 %small, 48
  store i8 %character, ptr %at
  %more = icmp ne i64 %rest, 0
  br i1 %more, label %digit, label %sign
sign:
  %before = getelementptr i8, ptr %at, i32 -1
  store i8 45, ptr %before
  br label %told
told:
  %text = select i1 %below, ptr %before, ptr %at
  %second = getelementptr ptr, ptr %parts, i32 1
  store ptr @{name}_needs, ptr %parts
  store ptr %text, ptr %second
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @{name}_kind, ptr %parts, i32 2)
  ret i32 -1
}}"""
        )


class Errors:
    """What calls other functions by TVM's convention, and ends with the error of the first that fails."""

    def __init__(self) -> None:
        self._code = registers(1, "int32")
        store(self._code, tirx.const(0, "int32"), 0)

    @staticmethod
    @contextmanager
    def known() -> Iterator[None]:
        """Within it, what is emitted may end so."""
        with with_llvm(_HAND_ON):
            yield

    @property
    def none(self) -> Expr:
        """Whether all went well so far."""
        return self._code[0].equal(tirx.const(0, "int32"))

    def call(self, symbol: str, arguments: Expr, count: int, result: Expr) -> None:
        """Call a function, unless one has failed."""
        with when(self.none):
            given = (tirx.reinterpret("handle", tirx.const(0, "uint64")), arguments)
            code = tirx.call_extern("int32", symbol, *given, tirx.const(count, "int32"), result)
            store(self._code, code, 0)

    def end(self) -> None:
        """End the function where one has failed; once, and within no loop."""
        with when(tirx.Not(self.none)):
            _call(HAND_ON, [])


def _call(symbol: str, arguments: Sequence[Mapping[int, Expr]]) -> None:
    """Call what fails, and so end the function."""
    nothing = {TYPE: tirx.const(0, "int32"), PADDING: tirx.const(0, "int32")}
    anys = T.Bind(tirx.call_intrin("handle", "tirx.tvm_stack_alloca", "tvm_ffi_any", len(arguments) + 1))
    for place, fields in enumerate((*arguments, nothing)):
        for field, value in fields.items():
            T.evaluate(tirx.call_intrin("int32", "tirx.tvm_struct_set", anys, place, field, value))
    T.evaluate(tirx.call_intrin("int32", CALL, symbol, anys, 0, len(arguments)))


def needs_and(needs: str, number: str | int = "") -> str:
    """The text of an error."""
    return f"{needs}, and is given {number}"
