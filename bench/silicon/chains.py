"""The chains that a row's latency is measured by.

All that is measured lies on a chain through register 0. Where the result goes to other registers than the
sources come from, or to flags, something leads back, and its latency is taken off: what, and how much, is as
in the table's source, so that the same is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.silicon.forms.form import Form
from bench.silicon.loops import ZEROS, Loop, atomic, constants, in_memory, is_vector, setup

_ADD = Loop(("add x0, x0, x24",), 1)
_ADC = Loop(("adc x0, x0, x0",), 1)
_ADCS = Loop(("adcs x0, x0, x0",), 1)
_FCSEL = Loop(("fcsel d0, d0, d0, eq",), 1)
_EIGHT_SUBS = Loop(("sub x0, x0, #2",) * 8, 1)
_LANE_AND_BACK = Loop(("mov v0.d[0], x0", "mov x0, v0.d[0]"), 1)


def _to_integer(number: int = 0) -> tuple[str, ...]:
    """From a vector register to x0, by an addition on each side."""
    return (
        f"add v{number}.2d, v{number}.2d, v31.2d",
        f"mov x0, v{number}.d[0]",
        f"add x0, x0, x{ZEROS}",
    )


_THERE_AND_BACK = Loop(("fmov d0, x0", *_to_integer()), 1, ("movi v31.2d, #0",))
_SHORT_WAY = Loop(("fmov d0, x0", "mov x0, v0.d[0]", f"add x0, x0, x{ZEROS}"), 1)

Cycles = Mapping[Loop, float]


def _back(cycles: Cycles) -> float:
    """What ``_to_integer`` takes, if FMOV takes half of the short way; the table's source rounds it."""
    return math.floor(cycles[_THERE_AND_BACK] - cycles[_SHORT_WAY] / 2 + 0.5)


@dataclass(frozen=True)
class Chain:
    """``loop`` takes the latency and what ``less`` makes of the ``others``."""

    loop: Loop
    others: tuple[Loop, ...] = ()
    less: Callable[[Cycles], float] = lambda cycles: 0.0


def _less(loop: Loop, other: Loop, parts: int = 1) -> Chain:
    return Chain(loop, (other,), lambda cycles: cycles[other] / parts)


def chain(form: Form) -> Chain:
    """How the latency of ``form`` is measured."""
    if form.back:
        there = form.asm.format(**dict.fromkeys(form.roles, 0))
        return Chain(Loop((there, form.back.format(d=0, n=0)), 1))
    if form.writes_flags and form.mnemonic != "fjcvtzs":
        return _through_flags(form)
    if in_memory(form) and not atomic(form):
        return _through_memory(form)
    line = form.asm.format(**_on_chain(form))
    vector = is_vector(form, form.leaves if form.leaves in form.roles else form.leaves.upper())
    if not vector and _sources_are_vectors(form):
        wide = form.mnemonic != "fjcvtzs"
        back = "mov v0.d[0], x0" if wide else "mov v0.s[0], w0"
        others = (_THERE_AND_BACK, _SHORT_WAY)
        return Chain(Loop((line, back), 1), others, lambda cycles: cycles[_THERE_AND_BACK] - _back(cycles))
    if vector and form.mnemonic == "dup" and not is_vector(form, "n"):
        back = "mov x0, v0.d[0]" if form.bank("n") == "x" else "mov w0, v0.s[0]"
        return _less(Loop((line, back), 1), _LANE_AND_BACK, 2)
    if vector and not _sources_are_vectors(form):
        loop = Loop((line, *_to_integer()), 1, ("movi v31.2d, #0",))
        return Chain(loop, (_THERE_AND_BACK, _SHORT_WAY), _back)
    return Chain(Loop((line,), 1))


def _sources_are_vectors(form: Form) -> bool:
    return any(is_vector(form, role) for role in form.roles if role[0] in "nmaD")


def _on_chain(form: Form) -> dict[str, int]:
    """Register 0 where the chain goes, others elsewhere."""
    enters = set(form.enters) or {"n", "m", "a", "D", "M"}
    numbers = constants(form)
    for role in form.roles:
        memory = in_memory(form) and role == "n"
        if role in {form.leaves, form.leaves.upper()} or (role in enters and not memory):
            numbers[role] = 0
        elif role[0] in "deDM":
            numbers[role] = int(role[1:] or 1)
    return numbers


def _through_flags(form: Form) -> Chain:
    """An instruction that reads the flags makes a register of them, or other flags."""
    numbers = dict.fromkeys(form.roles, 0)
    line = form.asm.format(**numbers)
    if form.mnemonic.startswith("f"):
        bank = form.bank("n")
        return _less(Loop((line, f"fcsel {bank}0, {bank}0, {bank}0, eq"), 1), _FCSEL)
    if form.reads_flags or "d" not in form.roles:
        return _less(Loop(("adcs x0, x0, x25", line), 1), _ADCS)
    return _less(Loop((line, "adc x0, x0, x0"), 1), _ADC)


def _through_memory(form: Form) -> Chain:
    """A load from an address that the one before gave, or that comes from what it gave."""
    if is_vector(form, form.leaves if form.leaves in form.roles else form.leaves.upper()):
        targets = [role for role in form.roles if role[0] in "dDe"]
        numbers = {role: number for number, role in enumerate(targets)} | {"n": 0}
        lines = (form.asm.format(**numbers), *_to_integer(numbers[_present(form)]))
        clear = tuple(f"movi v{number}.2d, #0" for number in (0, 1, 2, 3, 31))
        loop = Loop(lines, 1, (*clear, f"mov x0, x{ZEROS}"))
        return Chain(loop, (_THERE_AND_BACK, _SHORT_WAY), _back)
    if form.leaves == "N":
        line = form.asm.format(N=0, d=1)
        return _less(Loop((line, *_EIGHT_SUBS.lines), 1, setup(form)), _EIGHT_SUBS)
    if "N" in form.roles:
        lines = (form.asm.format(N=0, d=1), form.asm.format(N=1, d=0))
        return Chain(Loop(lines, 2, setup(form)))
    if form.enters == "m":
        return Chain(Loop((form.asm.format(d=0, n=ZEROS, m=0),), 1, ("mov x0, xzr",)))
    numbers = {"d": 0, "e": 1, "n": 0}
    if form.leaves == "e":
        numbers |= {"d": 1, "e": 0}
    line = form.asm.format(**numbers)
    if form.bank("d") == "x" and form.mnemonic in {"ldr", "ldur", "ldp"}:
        return Chain(Loop((line,), 1))
    return _less(Loop((line, f"add x0, x0, x{ZEROS}"), 1, (f"mov x0, x{ZEROS}",)), _ADD)


def _present(form: Form) -> str:
    """The role that the form leaves by, as its text has it."""
    return form.leaves if form.leaves in form.roles else form.leaves.upper()
