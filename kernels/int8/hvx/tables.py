"""Tables of 256 entries, looked up by 128 bytes at a time: HVX's vlut32.

Hexagon V66 HVX Programmer's Reference Manual. An instruction has a vector of four rows of 32 entries and
looks up in one of them; what asks for another row becomes zero, so that eight of them together are a table.
Entries 64 apart lie side by side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.emit.tir import const
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Vector
from kernels.int8.hvx.instructions import BYTES, call, pinned, words
from kernels.int8.hvx.instructions import WORDS as LANES

ENTRIES = 256
ROWS = 8
"""Of a table."""
WORD = 4
"""Bytes of a word."""
_INTERLEAVE_BYTES, _INTERLEAVE_HALVES = -1, -2
"""What vshuff takes to interleave two vectors by units of one or two bytes."""


def rows_of(halves: Sequence[Vector]) -> list[Vector]:
    """A table in order, two vectors of 128 bytes (words), as ``looked_up`` takes it."""
    return [words("vshuffb", half) for half in halves]


def looked_up(index: Vector, rows: Sequence[Vector]) -> Vector:
    """128 entries of one table, for 128 unsigned bytes; all are words."""
    found = pinned("vlutvvb", index, rows[0], const(0))
    for row in range(1, ROWS):
        found = pinned("vlutvvb.oracc", found, index, rows[row // (ROWS // 2)], const(row))
    return found


@dataclass(frozen=True)
class WordTable:
    """256 words of 32 bits, known when code is made."""

    entries: tuple[int, ...]

    @property
    def _bytes(self) -> npt.NDArray[Any]:
        """[byte of a word][half of the entries][as ``looked_up`` takes them]."""
        planes = np.array(self.entries, "<i4").view(np.uint8).reshape(ENTRIES, WORD).T
        return np.ascontiguousarray(planes.reshape(WORD, 2, 2, BYTES // 2).swapaxes(2, 3)).reshape(-1)

    @property
    def _name(self) -> str:
        """Functions of a module may have different tables."""
        return f"tilefleet_hvx_table_{hashlib.sha256(self._bytes.tobytes()).hexdigest()[:16]}"

    @property
    def llvm(self) -> str:
        """What must be around the code (``tir.with_llvm``)."""
        text = "".join(f"\\{byte:02x}" for byte in self._bytes)
        return f"""
@{self._name}_bytes = linkonce_odr hidden constant [{WORD * ENTRIES} x i8] c"{text}", align {BYTES}
define linkonce_odr hidden <{LANES} x i32> @{self._name}(i32 %at) alwaysinline {{
  %place = getelementptr i8, ptr @{self._name}_bytes, i32 %at
  %words = load <{LANES} x i32>, ptr %place, align {BYTES}
  ret <{LANES} x i32> %words
}}
"""

    def rows(self) -> list[Vector]:
        """Its vectors, in registers as long as there are enough."""
        count = WORD * ENTRIES // BYTES
        return [
            T.Bind(tirx.call_extern(f"int32x{LANES}", self._name, const(at * BYTES))) for at in range(count)
        ]


def words_looked_up(index: Vector, rows: Sequence[Vector]) -> list[Vector]:
    """Four vectors of entries of a ``WordTable`` with these ``rows``, for 128 unsigned bytes (words)."""
    planes = [looked_up(index, rows[2 * byte : 2 * byte + 2]) for byte in range(WORD)]
    low, high = _interleaved(planes[0], planes[1], _INTERLEAVE_BYTES)
    low_upper, high_upper = _interleaved(planes[2], planes[3], _INTERLEAVE_BYTES)
    return [
        *_interleaved(low, low_upper, _INTERLEAVE_HALVES),
        *_interleaved(high, high_upper, _INTERLEAVE_HALVES),
    ]


def _interleaved(one: Vector, other: Vector, how: int) -> tuple[Vector, Vector]:
    both = call("int32x64", "vshuffvdd", other, one, const(how))
    return words("lo", both), words("hi", both)
