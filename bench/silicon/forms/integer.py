"""Instructions on the integer registers."""

from __future__ import annotations

from bench.silicon.forms.form import Form, Name, bits, words

_TWO_SOURCES = words(
    "add sub and orr orn eor eon bic adds subs ands bics adc adcs sbc sbcs mul mneg smulh umulh sdiv udiv"
)
_ONE_SOURCE = words("rbit rev16 rev32 clz cls")
_LONG_PRODUCTS = words("smull smnegl umull umnegl")
_LONG_SUMS = words("smaddl smsubl umaddl umsubl")
_SHIFTS = words("lsl lsr asr ror")
_FIELDS = {
    "bfc": "x{D}, #17, #2",
    "bfi": "x{D}, x{n}, #17, #2",
    "bfm": "x{D}, x{n}, #17, #2",
    "bfxil": "x{D}, x{n}, #17, #2",
    **dict.fromkeys(("sbfm", "ubfm"), "x{d}, x{n}, #17, #2"),
    **dict.fromkeys(("sbfx", "sbfiz", "ubfx", "ubfiz"), "x{d}, x{n}, #2, #17"),
}
_SHIFTED = {"<<2": "lsl #2", "<<17": "lsl #17", ">>17": "lsr #17"}
_FIELD_BITS = bits(10, 12)
"""Both numbers of a bit field, and with bit 22 a logical immediate."""
_CONDITION = bits(12, 4)


def arithmetic(name: Name) -> Form | None:
    """Add, subtract, logic, multiply, divide and extend."""
    word, notes = name.word, name.notes
    kind = notes[0] if notes else ""
    if word in {"adr", "adrp"}:
        return Form(f"{word} x{{d}}, .", bits(5, 19) | bits(29, 2))
    if "clearing idiom" in notes:
        return Form(f"{word} x{{d}}, x{{n}}, x{{n}}")
    if kind in {"imm", "imm<<12"}:
        shift = ", lsl #12" if kind.endswith("12") else ""
        return Form(f"{word} x{{d}}, x{{n}}, #1{shift}", bits(10, 12))
    if kind == "mask imm":
        return Form(f"{word} x{{d}}, x{{n}}, #0x1ffc", bits(10, 13))
    if word in {"madd", "msub"}:
        return Form(f"{word} x{{d}}, x{{n}}, x{{m}}, x{{a}}")
    if word in _LONG_PRODUCTS:
        return Form(f"{word} x{{d}}, w{{n}}, w{{m}}")
    if word in _LONG_SUMS:
        return Form(f"{word} x{{d}}, w{{n}}, w{{m}}, x{{a}}")
    if word in {"sxtb", "sxth", "sxtw"}:
        return Form(f"{word} x{{d}}, w{{n}}")
    if word in {"uxtb", "uxth"}:
        return Form(f"{word} w{{d}}, w{{n}}")
    if word in _TWO_SOURCES:
        # One register twice is a move, or clears.
        return _shifted(f"{word} x{{d}}, x{{n}}, x{{m}}", notes, "m" if word in {"orr", "eor"} else "")
    if word in {"neg", "negs", "ngc", "ngcs", "mvn"}:
        return _shifted(f"{word} x{{d}}, x{{m}}", notes)
    return None


def _shifted(text: str, notes: tuple[str, ...], enters: str = "") -> Form:
    """With the second source shifted. A shift to the left by up to 3 has a price of its own."""
    amount = notes[0].removeprefix("reg") if notes else ""
    if not amount:
        return Form(text, enters=enters)
    shift = _SHIFTED[amount]
    if len(notes) == 2:
        shift = {"signed": "asr", "rotate": "ror"}[notes[1]] + " #17"
    return Form(f"{text}, {shift}", bits(10, 2 if amount == "<<2" else 6), enters=enters)


def bit_manipulation(name: Name) -> Form | None:
    """Shifts, bit fields, reversals and counts."""
    word, kind = name.word, name.notes[0] if name.notes else ""
    if word in _SHIFTS and kind == "reg":
        return Form(f"{word} x{{d}}, x{{n}}, x{{m}}")
    if word == "ror":
        return Form("extr x{d}, x{n}, x{n}, #17", bits(10, 6))
    if word == "asr":
        return Form("asr x{d}, x{n}, #17", _FIELD_BITS)
    if word in _SHIFTS:
        return Form(f"{word} x{{d}}, x{{n}}, #17", _FIELD_BITS)
    if word == "extr":
        return Form(f"extr x{{d}}, x{{n}}, x{{m}}, #{name.notes[1].removeprefix('>>')}", bits(10, 6))
    if word in _FIELDS:
        return Form(f"{word} {_FIELDS[word]}", _FIELD_BITS)
    if word == "rev":
        return Form(f"{'rev' if kind == 'rev64' else kind} x{{d}}, x{{n}}")
    if word in _ONE_SOURCE:
        return Form(f"{word} x{{d}}, x{{n}}")
    return arithmetic(name)


def moves(name: Name) -> Form | None:
    """Moves of registers and of constants, and what only clears a register."""
    word, kind = name.word, name.notes[0] if name.notes else ""
    if word == "nop":
        return Form("nop")
    if "clearing idiom" in name.notes and name.element:
        return Form(f"{word} v{{d}}.16b, v{{n}}.16b, v{{n}}.16b")
    if kind == "x -> x":
        return Form("mov x{d}, x{m}")
    if kind == "v.b -> v.b":
        return Form("orr v{d}.16b, v{n}.16b, v{n}.16b")
    if kind == "mask imm":
        return Form("mov x{d}, #0x1ffffffffffc", bits(10, 13))
    if word == "movk":
        return Form("movk x{D}, #0x1ffc", bits(5, 18))
    return arithmetic(name)


def constants(text: str) -> Form | None:
    """``mov / movz (imm; 0x1ffc<<16)`` and the like: the table names both mnemonics."""
    if text == "mov / movz (imm; 0x00)":
        return Form("movz x{d}, #0", bits(21, 2))
    if text.startswith("mov / movz"):
        return Form("movz x{d}, #0x1ffc", bits(5, 18))
    if text.startswith("mov / movn"):
        return Form("movn x{d}, #0x1ffc", bits(5, 18))
    return None


def compares(name: Name) -> Form | None:
    """Compares and what changes flags alone."""
    word, kind = name.word, name.notes[0] if name.notes else ""
    if word in {"ccmn", "ccmp"} and kind == "reg":
        return Form(f"{word} x{{n}}, x{{m}}, #15, {name.notes[1]}", _CONDITION | bits(0, 4))
    if word in {"ccmn", "ccmp"}:
        return Form(f"{word} x{{n}}, #17, #15, {name.notes[1]}", _CONDITION | bits(0, 4) | bits(16, 5))
    if word == "tst" and kind == "imm":
        return Form("tst x{n}, #0x1ffc", bits(10, 13))
    if word == "tst":
        return _shifted("tst x{n}, x{m}", name.notes)
    if word == "rmif":
        return Form("rmif x{n}, #17, #15", bits(0, 4) | bits(15, 6))
    if word in {"setf8", "setf16"}:
        return Form(f"{word} w{{n}}")
    return Form("cfinv") if word == "cfinv" else None


def selections(name: Name) -> Form | None:
    """Conditional selections; ``cinc`` and the like are those of one register twice."""
    word, condition = name.word, name.notes[0]
    if word in {"cset", "csetm"}:
        return Form(f"{word} x{{d}}, {condition}", _CONDITION)
    if word in {"cinc", "cinv", "cneg"}:
        return Form(f"cs{word.removeprefix('c')} x{{d}}, x{{n}}, x{{n}}, {condition}", _CONDITION)
    return Form(f"{word} x{{d}}, x{{n}}, x{{m}}, {condition}", _CONDITION)


def branches(name: Name) -> Form | None:
    """One branch to the instruction after it."""
    word = name.word
    if word == "b" and name.notes == ("pc+4",):
        return Form("b .+4", bits(0, 26))
    if name.notes and name.notes[-1] not in {"taken", "not taken"}:
        return None
    if word in {"cbz", "cbnz"}:
        return Form(f"{word} x{{s}}, .+4", bits(5, 19))
    if word in {"tbz", "tbnz"}:
        return Form(f"{word} x{{s}}, #0, .+4", bits(5, 14) | bits(19, 5) | bits(31, 1))
    return None
