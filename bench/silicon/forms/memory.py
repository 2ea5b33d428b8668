"""Loads, stores and atomic operations."""

from __future__ import annotations

from bench.silicon.forms.form import LAST_LANE, WHOLE, Form, Name, bits, words

_UNSIGNED, _SIGNED, _PAIR, _EXTEND = bits(10, 12), bits(12, 9), bits(15, 7), bits(13, 3)
"""Offsets of one register, small ones and those written back, of pairs, and the extension of an index."""
_LANE_BITS = {
    "b": bits(10, 3) | bits(30, 1),
    "h": bits(11, 2) | bits(30, 1),
    "s": bits(12, 1) | bits(30, 1),
    "d": bits(30, 1),
}
_X_BANK = words("ldr ldur str stur ldrsw ldursw")


def scalar(name: Name) -> Form | None:
    """Of one or two integer registers."""
    word, notes = name.word, name.notes
    load = word.startswith("ld")
    if word in {"ldnp", "stp"} or word.startswith("ldp"):
        return _scalar_pair(name)
    bank = "x" if word in _X_BANK else "w"
    return _one(f"{word} {bank}{{{'d' if load else 's'}}}", word, notes, load)


def _scalar_pair(name: Name) -> Form:
    if name.word == "stp":
        return Form("stp x{s}, x{S}, [x{n}]", _PAIR)
    bank = "w" if "w" in name.notes else "x"
    leaves = "e" if "2nd elem" in name.notes else "d"
    return Form(f"{name.word} {bank}{{d}}, {bank}{{e}}, [x{{n}}]", _PAIR, leaves=leaves)


def _one(start: str, word: str, notes: tuple[str, ...], load: bool) -> Form | None:
    """One register, in any way of addressing."""
    if notes == ("literal",):
        return Form(f"{start}, .", bits(5, 19))
    if notes[0] == "reg":
        shift = ", lsl #3" if "<<3" in notes else ""
        return Form(f"{start}, [x{{n}}, x{{m}}{shift}]", _EXTEND, enters="m")
    offset = "16" if any(note.endswith("ofs = 16") for note in notes) else "0"
    leaves = "N" if "ptr fwd." in notes else "d"
    if any(note.startswith("pre") for note in notes):
        return Form(f"{start}, [x{{N}}, #{offset}]!", _SIGNED, leaves=leaves)
    if any(note.startswith("post") for note in notes):
        return Form(f"{start}, [x{{N}}], #{offset}", _SIGNED, leaves=leaves)
    small = word.startswith(("ldur", "stur"))
    return Form(f"{start}, [x{{n}}, #{offset}]", _SIGNED if small else _UNSIGNED)


def vector(name: Name) -> Form | None:
    """Of vector registers."""
    word = name.word
    load = word.startswith("ld")
    if word in {"ldp", "ldnp"}:
        return Form(
            f"{word} q{{d}}, q{{e}}, [x{{n}}]", _PAIR, leaves="e" if "2nd elem" in name.notes else "d"
        )
    if word == "stp":
        return Form("stp q{s}, q{S}, [x{n}]", _PAIR)
    if name.element == "q":
        return _one(f"{word} q{{{'d' if load else 's'}}}", word, name.notes, load)
    return _structures(name, "d" if load else "s")


def _structures(name: Name, role: str) -> Form:
    """LD1 to LD4 and ST1 to ST4: whole vectors, one lane, one element to all lanes."""
    word, count = name.word, int(name.word[2])
    single = bool(name.notes) and name.notes[0] == "single"
    if name.notes and name.notes[-1].endswith(" reg"):
        count = int(name.notes[-1][0])
    if single and role == "d":
        role = "D"  # the other lanes stay
    names = [role, *(f"{role}{number}" for number in range(1, count))]
    kind = name.element if single else WHOLE[name.element]
    listed = ", ".join(f"v{{{each}}}.{kind}" for each in names)
    lane = f"[{LAST_LANE[name.element]}]" if single else ""
    free = _LANE_BITS[name.element] if single else 0
    return Form(f"{word} {{{{{listed}}}}}{lane}, [x{{n}}]", free, leaves=names[-1])


def atomic(name: Name) -> Form | None:
    """Compare and swap, and what reads, computes and writes in one."""
    word = name.word
    bank = "w" if word[-1] in "bh" else "x"
    if word == "caspal":
        return Form("caspal x{M}, x{M1}, x{s}, x{s1}, [x{n}]", enters="M", leaves="M")
    if word.startswith("cas"):
        return Form(f"{word} {bank}{{M}}, {bank}{{s}}, [x{{n}}]", enters="M", leaves="M")
    return Form(f"{word} {bank}{{m}}, {bank}{{d}}, [x{{n}}]", enters="m")
