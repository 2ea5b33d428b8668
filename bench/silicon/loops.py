"""The loops that a row is measured by: which registers its copies have, and what stands beside them.

A loop finds x24 = 3, x25 = 5, zeros at x26, memory to write to at x27, and at x28 words that hold x28. Its
copies write x0 to x23 and v8 to v31, chains v0; the others and what is named here are only read.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.silicon.forms.form import Form, words

ZEROS, SCRATCH, POINTERS = 26, 27, 28
INDEX = 25
ROTATED = 24
"""How many registers are written in turn."""
FIRST_VECTOR = 8
COPIES = 192
_VECTOR_SOURCES = {"n": 1, "m": 5, "a": 6, "s": 1, "S": 2}
_INTEGER_SOURCES = {"n": 24, "m": 25, "a": 24, "s": 24, "S": 25}
_AFTER_FLAGS = words("adcs sbcs ngcs ccmn ccmp tst rmif setf8 setf16 cfinv fccmp fccmpe")
"""What depends on the flags of the one before: an ADDS ends the chain. How many of them go between two is
tried out, and the best counts, as the table's source does it."""
_MOST_BETWEEN = 8


@dataclass(frozen=True)
class Loop:
    """``lines`` over and over, after ``setup``; they are ``steps`` copies of what is measured."""

    lines: tuple[str, ...]
    steps: int
    setup: tuple[str, ...] = ()
    copies: int = COPIES
    """How many instructions it should have."""

    @property
    def repeats(self) -> int:
        """How often ``lines`` stand in the loop."""
        return max(1, self.copies // len(self.lines))


def is_vector(form: Form, role: str) -> bool:
    """Whether a role's register is one of vectors."""
    return form.bank(role) not in "xw"


def in_memory(form: Form) -> bool:
    """Whether it loads or stores by a register."""
    return "[x" in form.asm


def base(form: Form) -> int:
    """The register with the address: what is stored or changed must not be a pointer or a zero."""
    return POINTERS if form.mnemonic.startswith("ld") and not atomic(form) else SCRATCH


def atomic(form: Form) -> bool:
    """Whether it reads and writes memory in one."""
    return form.mnemonic.startswith("cas") or form.mnemonic.rstrip("bh").endswith("al")


def constants(form: Form) -> dict[str, int]:
    """For each role that is only read, a register that no copy writes."""
    found = {}
    for role in form.roles:
        place, after = role[0], int(role[1:] or 0)
        sources = _VECTOR_SOURCES if is_vector(form, role) else _INTEGER_SOURCES
        if place in sources:
            found[role] = sources[place] + after
    if in_memory(form) and "n" in found:
        found["n"] = base(form)
    return found


def setup(form: Form) -> tuple[str, ...]:
    """What a form with an index or an address that is written back needs before its loop."""
    if "N" in form.roles:
        return tuple(f"mov x{number}, x{base(form)}" for number in range(ROTATED))
    return (f"mov x{INDEX}, xzr",) if in_memory(form) and "x{m}]" in form.asm.replace(", lsl #3", "") else ()


def throughput(form: Form, name: str) -> list[Loop]:
    """The loops of copies that do not wait for each other; the fastest counts."""
    if "(pc+4" in name:
        return [_branches(form, "not taken" not in name)]
    copies = [form.asm.format(**(constants(form) | written)) for written in _rotation(form)]
    if form.mnemonic in _AFTER_FLAGS:
        return [_between(copies, count) for count in range(1, _MOST_BETWEEN + 1)]
    if "N" in form.roles and "#16" in form.asm:
        copies = [
            line
            for copy, written in zip(copies, _rotation(form), strict=True)
            for line in (copy, f"sub x{written['N']}, x{written['N']}, #16")
        ]
        return [Loop(tuple(copies), len(copies) // 2, setup(form))]
    return [Loop(tuple(copies), len(copies), setup(form))]


def _rotation(form: Form) -> list[dict[str, int]]:
    """The registers that are written, copy by copy."""
    targets = [role for role in form.roles if role[0] in "dDeMN"]
    if "N" in targets and len(targets) == 2:  # a load to another register than its address
        half = ROTATED // 2
        return [{"N": number, "d": number + half} for number in range(half)]
    width = max(len(targets), 1)
    first = FIRST_VECTOR if targets and is_vector(form, targets[0]) else 0
    starts = range(first, first + ROTATED - width + 1, width)
    return [{role: start + number for number, role in enumerate(targets)} for start in starts]


def _branches(form: Form, taken: bool) -> Loop:
    """By a register of zero, or of 3."""
    zero = form.mnemonic.endswith("bz") == taken
    number = 0 if zero else _INTEGER_SOURCES["s"]
    return Loop((form.asm.format(s=number),) * ROTATED, ROTATED, ("mov x0, xzr",))


def _between(copies: list[str], count: int) -> Loop:
    """An ADDS before each ``count`` of them."""
    whole = len(copies) // count * count
    lines: list[str] = []
    for start in range(0, whole, count):
        target = start % ROTATED
        lines += [f"adds x{target}, x24, x25", *copies[start : start + count]]
    return Loop(tuple(lines), whole)
