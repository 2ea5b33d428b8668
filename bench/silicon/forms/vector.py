"""Integer arithmetic, logic and permutations of vectors."""

from __future__ import annotations

from bench.silicon.forms.form import HALF, NARROWER, WHOLE, WIDER, Form, Name, bits, words

_UNARY = words("abs sqabs neg sqneg not mvn rbit rev16 rev32 rev64 cls clz cnt urecpe ursqrte")
_INTO_BOTH = words("suqadd usqadd")
_BLENDS = words("bif bit bsl")
_ACCUMULATING = words("saba uaba")
_THREE_SOURCES = words("eor3 bcax")


def three(word: str, result: str, first: str, second: str, into: bool = False) -> str:
    """The text of an instruction with two sources, by the arrangements of its registers."""
    return f"{word} v{{{'D' if into else 'd'}}}.{result}, v{{n}}.{first}, v{{m}}.{second}"


def two(word: str, result: str, source: str, into: bool = False) -> str:
    """The text of an instruction with one source."""
    return f"{word} v{{{'D' if into else 'd'}}}.{result}, v{{n}}.{source}"


def same(name: Name) -> Form | None:
    """All registers have the same arrangement."""
    word, whole = name.word, name.whole
    if word in {"orr", "bic"} and (name.element != "b" or "imm" in name.notes):
        return Form(f"{word} v{{D}}.{whole}, #0x11{_shift(name)}", bits(5, 5) | bits(16, 3) | bits(13, 1))
    if word == "xar":
        return Form(f"xar v{{d}}.{whole}, v{{n}}.{whole}, v{{m}}.{whole}, #17", bits(10, 6))
    if word in _THREE_SOURCES:
        return Form(f"{word} v{{d}}.{whole}, v{{n}}.{whole}, v{{m}}.{whole}, v{{a}}.{whole}")
    if word in _INTO_BOTH and "scl" in name.notes:
        return Form(f"{word} {name.element}{{D}}, {name.element}{{n}}")
    if word in _UNARY or word in _INTO_BOTH:
        return Form(two(word, whole, whole, word in _INTO_BOTH))
    # One register twice is a move, or clears.
    enters = "m" if word in {"orr", "eor"} else ""
    return accumulated(name) or Form(three(word, whole, whole, whole, word in _BLENDS), enters=enters)


def _shift(name: Name) -> str:
    return ", lsl #8" if "<<8" in name.notes else ""


def accumulated(name: Name) -> Form | None:
    """Sums of absolute differences, of one width."""
    if name.word not in _ACCUMULATING:
        return None
    text = three(name.word, name.whole, name.whole, name.whole, into=True)
    return Form(text, forward=name.forward, enters="D" if name.forward else "")


def differences(name: Name) -> Form | None:
    """Absolute differences, and their sums, and sums of neighbours that are added to."""
    word = name.word
    if word in {"sadalp", "uadalp"}:
        return Form(two(word, WHOLE[WIDER[name.element]], name.whole, into=True))
    if word.removesuffix("2") in {"sabal", "uabal", "sabdl", "uabdl"}:
        return widening(name, into=word.removesuffix("2").endswith("bal"))
    return same(name)


def widening(name: Name, into: bool = False) -> Form:
    """The results are twice as wide as the sources; the name has the element of these."""
    narrow = name.whole if name.upper else name.half
    return Form(three(name.word, WHOLE[WIDER[name.element]], narrow, narrow, into))


def widths(name: Name) -> Form | None:
    """Widening, narrowing, halving and horizontal sums."""
    word, element = name.word, name.element
    root = word.removesuffix("2")
    if root in {"saddl", "ssubl", "usubl"}:
        return widening(name)
    if root.endswith("w"):
        narrow = (WHOLE if name.upper else HALF)[NARROWER[element]]
        return Form(three(word, name.whole, name.whole, narrow))
    if root.endswith("hn"):
        narrow = (WHOLE if name.upper else HALF)[NARROWER[element]]
        return Form(three(word, narrow, name.whole, name.whole, into=name.upper))
    if word == "saddlp":
        return Form(two(word, WHOLE[WIDER[element]], name.whole))
    if word == "saddlv":
        return Form(f"saddlv {WIDER[element]}{{d}}, v{{n}}.{name.whole}")
    return across(name)


def across(name: Name) -> Form | None:
    """Of the elements of one vector (``addv``), or as others of one width."""
    if name.word.endswith("v"):
        return Form(f"{name.word} {name.element}{{d}}, v{{n}}.{name.whole}")
    return same(name)


def compares(name: Name) -> Form | None:
    """With a register or with zero."""
    if "zero" in name.notes:
        return Form(f"{name.word} v{{d}}.{name.whole}, v{{n}}.{name.whole}, #0")
    return same(name)


def permutes(name: Name) -> Form | None:
    """Table look-ups, extracts, transpositions and interleavings."""
    word = name.word
    if word in {"tbl", "tbx"}:
        count = int(name.notes[0].removeprefix("len == "))
        table = ", ".join(f"v{{n{number or ''}}}.16b" for number in range(count))
        target = "d" if word == "tbl" else "D"
        return Form(f"{word} v{{{target}}}.16b, {{{{{table}}}}}, v{{m}}.16b", enters="mD")
    if word == "ext":
        return Form("ext v{d}.16b, v{n}.16b, v{m}.16b, #1", bits(11, 4))
    return same(name)
