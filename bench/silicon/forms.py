"""From a row of the table of instructions to its assembly.

What a row measures, and by which chain, is what the source of the table says: insn_bench_aarch64's src/*.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from bench.silicon import (
    forms_crypto,
    forms_float,
    forms_integer,
    forms_memory,
    forms_multiply,
    forms_shift,
    forms_vector,
)
from bench.silicon.form import Form, Name

_SECTIONS: Mapping[str, Callable[[Name], Form | None]] = {
    "Scalar load": forms_memory.scalar,
    "Scalar store (throughput)": forms_memory.scalar,
    "Branch": forms_integer.branches,
    "Scalar nop and move": forms_integer.moves,
    "Scalar integer add, sub, and neg": forms_integer.arithmetic,
    "Scalar integer multiply and multiply-accumulate": forms_integer.arithmetic,
    "Scalar integer divide": forms_integer.arithmetic,
    "Scalar integer sign extend": forms_integer.arithmetic,
    "Scalar shift and bit maniplation": forms_integer.bit_manipulation,
    "Scalar bitwise logic": forms_integer.arithmetic,
    "Scalar integer compare and flag manipulation": forms_integer.compares,
    "Scalar condtional arithmetic": forms_integer.selections,
    "Hash and crypto": forms_crypto.crypto,
    "Vector load (might be incorrect due to a wrong d -> x latency estimation)": forms_memory.vector,
    "Vector store (throughput)": forms_memory.vector,
    "Vector element move": forms_shift.elements,
    "Vector integer add, sub, abs, and neg": forms_vector.same,
    "Vector integer add and sub (widening, narrowing, and horizontal)": forms_vector.widths,
    "Vector integer max and min": forms_vector.across,
    "Vector integer absolute difference": forms_vector.differences,
    "Vector integer multiply": forms_multiply.products,
    "Vector integer multiply-accumulate": forms_multiply.products,
    "Vector integer absolute difference accumulate": forms_vector.differences,
    "Vector integer divide": forms_vector.same,
    "Vector bitwise logic": forms_vector.same,
    "Vector bit manipulation": forms_vector.same,
    "Vector shift": forms_shift.shifts,
    "Vector integer compare": forms_vector.compares,
    "Vector permute": forms_vector.permutes,
    "Floating point add, sub, abs, and neg": forms_float.arithmetic,
    "Floating point max / min": forms_float.arithmetic,
    "Floating point multiply": forms_float.arithmetic,
    "Floating point multiply-accumulate and fused-multiply add": forms_multiply.floats,
    "Floating point divide and reciprocal": forms_float.arithmetic,
    "Floating point math": forms_float.arithmetic,
    "Floating point compare": forms_float.compares,
    "Floating point condtional select": forms_float.compares,
    "Floating point convert": forms_float.conversions,
    "Atomic memory operation": forms_memory.atomic,
}
_LATER = {
    "unaligned": "memory that is not aligned",
    "cross-cache": "memory in two lines",
    "cross-page": "memory in two pages",
    "random": "branches that nobody can predict",
}


def why_none(section: str, name: str) -> str:
    """Why a row has no form, or nothing when it has one."""
    if "store-to-load" in section:
        return "a load of what was just stored"
    for word, reason in _LATER.items():
        if word in name:
            return reason
    if form(section, name) is None:
        several = any(sign in name for sign in ("->", "//", "-ret", "pc+8"))
        return "more than one instruction" if several else "no form"
    return ""


@cache
def form(section: str, name: str) -> Form | None:
    """The assembly of the row, or None: ``why_none`` tells why."""
    if section not in _SECTIONS or any(word in name for word in _LATER):
        return None
    constant = forms_integer.constants(name)
    if constant:
        return constant
    parsed = Name.parsed(name)
    return _SECTIONS[section](parsed) if parsed else None
