"""Floats: arithmetic, compares and conversions."""

from __future__ import annotations

from bench.silicon.forms.form import Form, Name, bits, shift_bits, words
from bench.silicon.forms.vector import three, two

_UNARY = words("fabs fneg fsqrt frecpe frecpx frsqrte frinta frinti frintm frintn frintp frintx frintz")
_ACROSS = words("faddp fmaxp fmaxnmp fminp fminnmp")
_PAIR = {"h": "2h", "s": "2s", "d": "2d"}
_CONDITION = bits(12, 4)
_GENERAL = {"h": "w", "s": "w", "d": "x"}
_LONG = {"h": "4h", "s": "2s"}
"""What FCVTL reads and FCVTN writes, by the narrower element."""
_WHOLE = {"h": "8h", "s": "4s", "d": "2d"}


def arithmetic(name: Name) -> Form | None:
    """One or two sources, of vectors or of one element."""
    word, element = name.word, name.element
    scalar = "scl" in name.notes or word == "fnmul"
    if word == "fcadd":
        return Form(f"{three(word, name.whole, name.whole, name.whole)}, #90", bits(12, 1))
    if word.endswith("v"):
        return Form(f"{word} {element}{{d}}, v{{n}}.{name.whole}")
    if word in _ACROSS and scalar:
        return Form(f"{word} {element}{{d}}, v{{n}}.{_PAIR[element]}")
    if word in _UNARY and scalar:
        return Form(f"{word} {element}{{d}}, {element}{{n}}")
    if word in _UNARY:
        return Form(two(word, name.whole, name.whole))
    if scalar:
        return Form(f"{word} {element}{{d}}, {element}{{n}}, {element}{{m}}")
    return Form(three(word, name.whole, name.whole, name.whole))


def compares(name: Name) -> Form | None:
    """Into flags or into masks, with a register or with zero, and selections by flags."""
    word, element = name.word, name.element
    if word in {"fccmp", "fccmpe"}:
        text = f"{word} {element}{{n}}, {element}{{m}}, #15, {name.notes[0]}"
        return Form(text, _CONDITION | bits(0, 4))
    if word == "fcsel":
        return Form(f"fcsel {element}{{d}}, {element}{{n}}, {element}{{m}}, {name.notes[0]}", _CONDITION)
    if word in {"fcmp", "fcmpe"}:
        other = "#0.0" if "zero" in name.notes else f"{element}{{m}}"
        return Form(f"{word} {element}{{n}}, {other}")
    if "zero" in name.notes:
        start = f"{element}{{d}}, {element}{{n}}" if "scl" in name.notes else ""
        return Form(f"{word} {start}, #0.0" if start else f"{two(word, name.whole, name.whole)}, #0.0")
    return arithmetic(name)


def conversions(name: Name) -> Form | None:
    """Between formats, to and from integers, and roundings."""
    word, notes = name.word, name.notes
    if word == "fjcvtzs":
        return Form("fjcvtzs w{d}, d{n}")
    if word.startswith("fcvtx"):
        return Form(two(word, *(("4s", "2d", True) if name.upper else ("2s", "2d"))))
    if notes and "->" in notes[0] and not name.element:
        return _format(name)
    if word == "scvtf":
        return _from_integers(name)
    if word.startswith("fcvta"):
        element = name.element
        if notes == ("vec",):
            return Form(two(word, name.whole, name.whole))
        return Form(f"{word} {'x' if '->' in notes[0] else element}{{d}}, {element}{{n}}")
    return arithmetic(name)


def _format(name: Name) -> Form:
    source, _, result = name.notes[0].partition(" -> ")
    if name.word == "fcvt":
        return Form(f"fcvt {result}{{d}}, {source}{{n}}")
    if name.word.startswith("fcvtl"):
        return Form(two(name.word, _WHOLE[result], (_WHOLE if name.upper else _LONG)[source]))
    narrow = (_WHOLE if name.upper else _LONG)[result]
    return Form(two(name.word, narrow, _WHOLE[source], into=name.upper))


def _from_integers(name: Name) -> Form:
    """A vector's elements or an integer register; the latter cannot have all 64 shifts, but free bits."""
    kind, amount = name.notes
    shift = "" if amount == "int" else ", #2"
    if kind == "vec":
        free = shift_bits(name.element) if shift else 0
        return Form(two("scvtf", name.whole, name.whole) + shift, free)
    free = bits(10, 6 if name.element == "d" else 5) if shift else 0
    return Form(f"scvtf {name.element}{{d}}, {_GENERAL[name.element]}{{n}}{shift}", free)
