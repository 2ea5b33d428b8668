"""Shifts of vectors, and moves of elements in and out of them."""

from __future__ import annotations

from bench.silicon.forms.form import (
    HALF,
    LAST_LANE,
    NARROWER,
    WHOLE,
    WIDER,
    Form,
    Name,
    bits,
    shift_bits,
    words,
)
from bench.silicon.forms.vector import same, three, two

_INTO = words("sli sri ssra usra srsra ursra")
_LANE_BITS = {"b": bits(17, 4), "h": bits(18, 3), "s": bits(19, 2), "d": bits(20, 1)}
_IMMEDIATE = bits(5, 5) | bits(16, 3)
_GENERAL = {"b": "w", "h": "w", "s": "w", "d": "x"}


def shifts(name: Name) -> Form | None:
    """By a constant or by a register's elements, of one width, widening or narrowing."""
    word, element, root = name.word, name.element, name.word.removesuffix("2")
    amount = name.notes[-1].lstrip("<>") if name.notes else ""
    if "reg" in name.notes or not amount:
        return Form(three(word, name.whole, name.whole, name.whole))
    if root in {"shll", "sshll", "ushll"}:
        source = name.whole if name.upper else name.half
        free = 0 if root == "shll" else shift_bits(element)
        return Form(f"{two(word, WHOLE[WIDER[element]], source)}, #{amount}", free)
    if root.endswith("n"):
        narrow = NARROWER[element]
        result = (WHOLE if name.upper else HALF)[narrow]
        return Form(f"{two(word, result, name.whole, name.upper)}, #2", shift_bits(narrow))
    return Form(f"{two(word, name.whole, name.whole, word in _INTO)}, #{amount}", shift_bits(element))


def elements(name: Name) -> Form | None:
    """Constants, lanes, and what makes elements wider or narrower."""
    word, root = name.word, name.word.removesuffix("2")
    if word in {"movi", "mvni"}:
        return _constant(name)
    if name.notes and "<->" in name.notes[0]:
        return _round_trip(name)
    if word == "dup":
        return _duplicate(name)
    if root in {"sxtl", "uxtl"}:
        return Form(two(word, WHOLE[WIDER[name.element]], name.whole if name.upper else name.half))
    if root.endswith("n"):
        return _narrow(name)
    return same(name)


def _constant(name: Name) -> Form:
    """Zero by MOVI has a price of its own, so that its bits are not free."""
    value, _, shift = name.notes[0].partition("<<")
    zero = name.word == "movi" and value == "0x00"
    shifted = f", lsl #{shift}" if shift else ""
    return Form(f"{name.word} v{{d}}.{name.whole}, #{value}{shifted}", 0 if zero else _IMMEDIATE)


def _duplicate(name: Name) -> Form:
    if name.notes == ("elem",):
        return Form(f"dup v{{d}}.{name.whole}, {_GENERAL[name.element]}{{n}}")
    lane = LAST_LANE[name.element] if name.element != "b" else int(name.notes[-1].removeprefix("lane = "))
    return Form(f"dup v{{d}}.{name.whole}, v{{n}}.{name.element}[{lane}]", _LANE_BITS[name.element])


def _round_trip(name: Name) -> Form:
    """From an integer register into a lane; the row counts the way back as well."""
    word, element = name.word, name.element
    if word == "fmov":
        return Form("fmov v{D}.d[1], x{n}", back="fmov x{d}, v{n}.d[1]")
    lane = name.notes[0].partition(" ")[0]
    bank = _GENERAL[element]
    wide = "x" if word == "smov" and element == "s" else bank
    return Form(
        f"mov v{{D}}.{lane.removeprefix('v.')}, {bank}{{n}}",
        _LANE_BITS[element],
        back=f"{word} {wide}{{d}}, v{{n}}.{lane.removeprefix('v.')}",
    )


def _narrow(name: Name) -> Form:
    narrow = NARROWER[name.element]
    if "scl" in name.notes:
        return Form(f"{name.word} {narrow}{{d}}, {name.element}{{n}}")
    result = (WHOLE if name.upper else HALF)[narrow]
    return Form(two(name.word, result, name.whole, into=name.upper))
