"""Instructions that nobody measured because others cost the same: each with the row that has its price.

Other widths of integer and floating registers, addresses that move on, and selections.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.silicon.forms.form import Form, bits

_UNSIGNED, _SIGNED, _PAIR, _CONDITION = bits(10, 12), bits(12, 9), bits(15, 7), bits(12, 4)
_EXTEND = bits(12, 4)
"""The extension of an index, and whether it is scaled."""
_LANES = bits(16, 5) | bits(11, 4)
"""Of both vectors, and how wide they are."""
_LOAD, _LOAD_VECTOR, _STORE = "ldr (imm; ofs = 0)", "ldr.q (imm; ofs = 0)", "str (imm; ofs = 0)"


def aliases() -> Iterator[tuple[Form, str]]:
    """Each form, and the name of the row that it costs like."""
    for bank in "wxbhsdq":
        load = _LOAD if bank in "wx" else _LOAD_VECTOR
        store = "str.q (imm; ofs = 0)" if bank == "q" else _STORE
        yield from _one("ldr", "ldur", f"{bank}{{d}}", load)
        yield from _one("str", "stur", f"{bank}{{s}}", store)
    for bank, load, store in (
        ("q", "ldp.q (ofs = 0; 1st elem)", "stp.q (ofs = 0)"),
        ("d", "ldp (x; ofs = 0; 1st elem)", "stp (ofs = 0)"),
        ("s", "ldp (w; ofs = 0; 1st elem)", _STORE),
        ("x", "ldp (x; ofs = 0; 1st elem)", "stp (ofs = 0)"),
        ("w", "ldp (w; ofs = 0; 1st elem)", _STORE),
    ):
        yield from _two(f"ldp {bank}{{d}}, {bank}{{e}}", load)
        yield from _two(f"stp {bank}{{s}}, {bank}{{S}}", store)
    for bank in "xw":
        yield Form(f"csel {bank}{{d}}, {bank}{{n}}, {bank}{{m}}, eq", _CONDITION), "csinc (eq)"
    for word in ("smlal", "smlsl", "umlal", "umlsl"):
        yield Form(f"{word} v{{D}}.8h, v{{n}}.8b, v{{m}}.8b"), f"{word}.h (vec)"
        yield Form(f"{word}2 v{{D}}.8h, v{{n}}.16b, v{{m}}.16b"), f"{word}2.h (vec)"
    yield Form("mov v{D}.d[0], v{n}.d[0]", _LANES), "dup.d (vec; lane = 1)"
    for word in ("madd", "msub"):
        yield Form(f"{word} w{{d}}, w{{n}}, w{{m}}, w{{a}}"), "smaddl"
    for word in ("mul", "mneg"):
        yield Form(f"{word} w{{d}}, w{{n}}, w{{m}}"), "smull"


def _one(word: str, unscaled: str, register: str, row: str) -> Iterator[tuple[Form, str]]:
    yield Form(f"{word} {register}, [x{{n}}, #0]", _UNSIGNED), row
    yield Form(f"{unscaled} {register}, [x{{n}}, #1]", _SIGNED), row
    yield Form(f"{word} {register}, [x{{n}}, x{{m}}]", _EXTEND), row
    yield Form(f"{word} {register}, [x{{N}}, #16]!", _SIGNED), row
    yield Form(f"{word} {register}, [x{{N}}], #16", _SIGNED), row


def _two(start: str, row: str) -> Iterator[tuple[Form, str]]:
    yield Form(f"{start}, [x{{n}}]", _PAIR), row
    yield Form(f"{start}, [x{{N}}, #16]!", _PAIR), row
    yield Form(f"{start}, [x{{N}}], #16", _PAIR), row
