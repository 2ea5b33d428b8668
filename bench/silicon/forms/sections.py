"""From a row of the table of instructions to its assembly.

What a row measures, and by which chain, is what the source of the table says: insn_bench_aarch64's src/*.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from bench.silicon.forms import crypto, floats, integer, memory, multiply, shift, vector
from bench.silicon.forms.form import Form, Name

_SECTIONS: Mapping[str, Callable[[Name], Form | None]] = {
    "Scalar load": memory.scalar,
    "Scalar store (throughput)": memory.scalar,
    "Branch": integer.branches,
    "Scalar nop and move": integer.moves,
    "Scalar integer add, sub, and neg": integer.arithmetic,
    "Scalar integer multiply and multiply-accumulate": integer.arithmetic,
    "Scalar integer divide": integer.arithmetic,
    "Scalar integer sign extend": integer.arithmetic,
    "Scalar shift and bit maniplation": integer.bit_manipulation,
    "Scalar bitwise logic": integer.arithmetic,
    "Scalar integer compare and flag manipulation": integer.compares,
    "Scalar condtional arithmetic": integer.selections,
    "Hash and crypto": crypto.crypto,
    "Vector load (might be incorrect due to a wrong d -> x latency estimation)": memory.vector,
    "Vector store (throughput)": memory.vector,
    "Vector element move": shift.elements,
    "Vector integer add, sub, abs, and neg": vector.same,
    "Vector integer add and sub (widening, narrowing, and horizontal)": vector.widths,
    "Vector integer max and min": vector.across,
    "Vector integer absolute difference": vector.differences,
    "Vector integer multiply": multiply.products,
    "Vector integer multiply-accumulate": multiply.products,
    "Vector integer absolute difference accumulate": vector.differences,
    "Vector integer divide": vector.same,
    "Vector bitwise logic": vector.same,
    "Vector bit manipulation": vector.same,
    "Vector shift": shift.shifts,
    "Vector integer compare": vector.compares,
    "Vector permute": vector.permutes,
    "Floating point add, sub, abs, and neg": floats.arithmetic,
    "Floating point max / min": floats.arithmetic,
    "Floating point multiply": floats.arithmetic,
    "Floating point multiply-accumulate and fused-multiply add": multiply.floats,
    "Floating point divide and reciprocal": floats.arithmetic,
    "Floating point math": floats.arithmetic,
    "Floating point compare": floats.compares,
    "Floating point condtional select": floats.compares,
    "Floating point convert": floats.conversions,
    "Atomic memory operation": memory.atomic,
}
_ELSEWHERE = ("unaligned", "cross-cache", "cross-page", "random")
"""Words of rows that have loops (``places.py``, ``jumps.py``), not a form."""


@cache
def form(section: str, name: str) -> Form | None:
    """The assembly of the row; None where it has none (``reasons.py``), or a loop."""
    if section not in _SECTIONS or any(word in name for word in _ELSEWHERE):
        return None
    constant = integer.constants(name)
    if constant:
        return constant
    parsed = Name.parsed(name)
    return _SECTIONS[section](parsed) if parsed else None
