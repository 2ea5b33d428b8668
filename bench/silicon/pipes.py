"""What Arm's software optimization guides say of instructions: their pipes, and which accumulate early.

The table has how many instructions run a cycle, not where. Of instructions of one pipe this says which one;
the names are those of ``worker/fleet/drivers/sim_prices.py``.
"""

from __future__ import annotations

import re

from bench.silicon.forms.form import words

_PRODUCTS = re.compile(
    r"(s|u|sq|sqr|us|su)?d?ml[as]l?2?|(sq|sqr)dml[as]h|(s|u|p)?mull?2?|sq(r)?dmul[lh]2?|sqrdml[as]h"
    r"|pmull?2?|fcvt\w*|[su]cvtf|frint\w+|fdiv|fsqrt|frecp\w|frsqrt\w|urecpe|ursqrte|aes\w+|sha\w+|sm[34]\w*"
    r"|fmulx?_long"
)
"""Vector instructions of the pipe of products, conversions, divisions and ciphers: F0, V0, V0 and V2."""
_SHIFTS = re.compile(
    r"[su]?q?r?sh[lr]l?u?n?2?|sqshlu|[su]r?sra|s[lr]i|shl|[su]sh[lr]|[su]shll2?|shll2?|[su]xtl2?|r?shrn2?"
    r"|[su]q(r)?shr(u)?n2?|sqxtu?n2?|uqxtn2?|[su]adalp|[su]aba|[su]abal2?|[su]?addl?v|[su](max|min)v"
    r"|f(max|min)(nm)?v|[us]mov"
)
"""Those of the pipe of shifts, sums across a vector and sums of differences: F1, V1, V1 and V3."""
_DOTS = words("sdot udot usdot sudot smmla ummla usmmla bfdot bfmmla")
_FAMILIES = tuple(
    re.compile(text)
    for text in (
        *(r"fn?m(add|sub)|fml[as]l?2?", r"(s|u|sqd)?ml[as]l?2?|sqrdml[as]h", r"[su]+dot|u?s?u?mmla"),
        *(r"[su]adalp", r"[su]abal?2?", r"[su]r?sra", r"fcmla"),
    )
)
EARLY = range(3, 7)
"""Families whose accumulator latency is one cycle where the table has no row for it: dot products, sums of
pairs, of differences and of shifts."""


def family(word: str) -> int:
    """The number, from 1, of the instructions that forward their results to each other's accumulators; 0 for
    those that forward nothing. ``word`` is a mnemonic."""
    return next((at for at, each in enumerate(_FAMILIES, 1) if each.fullmatch(word)), 0)


def pipes(core: str, section: str, word: str, per_cycle: float) -> str:
    """The pipes of an instruction with the mnemonic ``word``, of ``section`` in the table, on ``core``, which
    runs ``per_cycle`` of it."""
    if "load" in section or "Atomic" in section:
        return "L"
    if "store" in section:
        return "S" if core == "a72" else "S+L*1"
    if section == "Branch":
        return "B"
    if section.startswith("Scalar") or word.startswith("crc32"):
        return _scalar(core, per_cycle)
    return _vector(core, word, per_cycle)


def _scalar(core: str, per_cycle: float) -> str:
    single = per_cycle < 1.2
    if core == "v1":
        return "M0" if single else "M" if per_cycle < 2.2 and not 1.9 < per_cycle < 1.995 else "I"
    return "M" if single else "I"


def _vector(core: str, word: str, per_cycle: float) -> str:
    whole = {"a72": 1.4, "n1": 1.4, "v1": 2.5}[core]
    if per_cycle > whole or word in _DOTS:
        return "F" if core == "a72" else "V"
    products, shifts = {"a72": ("F0", "F1"), "n1": ("V0", "V1"), "v1": ("V02", "V13")}[core]
    if _PRODUCTS.fullmatch(word):
        return products
    if _SHIFTS.fullmatch(word):
        return shifts
    return "F" if core == "a72" else "V"
