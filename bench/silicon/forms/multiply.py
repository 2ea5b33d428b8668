"""Multiplications of vectors, of integers and floats, with and without a sum."""

from __future__ import annotations

from dataclasses import replace

from bench.silicon.forms.form import LAST_LANE, WHOLE, WIDER, Form, Name, bits, words
from bench.silicon.forms.vector import three, widening

_SUMS = words("mla mls sqrdmlah sqrdmlsh fmla fmls")
_LONG_SUMS = words("smlal umlal sqdmlal smlsl umlsl sqdmlsl")
_LONG = words("smull umull sqdmull pmull")
_FUSED = words("fmadd fmsub fnmadd fnmsub")
_LANE_BITS = {"h": bits(11, 1) | bits(20, 2), "s": bits(11, 1) | bits(21, 1), "d": bits(11, 1)}
"""Where an instruction by element has its lane: with elements of 16 bits the register has four bits."""


def products(name: Name) -> Form | None:
    """Integers, floats and polynomials, by a vector or by one of its elements."""
    if name.element == "b" and name.word == "sdot":
        return _dot(name)
    return _with_chain(_multiply(name), name)


def _with_chain(form: Form, name: Name) -> Form:
    return replace(form, forward=True, enters="a" if "{a}" in form.asm else "D") if name.forward else form


def _multiply(name: Name) -> Form:
    word, element, root = name.word, name.element, name.word.removesuffix("2")
    into = root in _SUMS or root in _LONG_SUMS
    if root in _LONG or root in _LONG_SUMS:
        form = widening(name, into)
    else:
        form = Form(three(word, name.whole, name.whole, name.whole, into))
    if not name.notes or name.notes[0] != "elem":
        return form
    # The source measures lane 0 of some rows that say another one; no price depends on it.
    start = form.asm.rpartition(".")[0]
    return Form(f"{start}.{element}[{LAST_LANE[element]}]", _LANE_BITS[element])


def _dot(name: Name) -> Form:
    if name.notes == ("vec",):
        return Form("sdot v{D}.4s, v{n}.16b, v{m}.16b")
    return Form("sdot v{D}.4s, v{n}.16b, v{m}.4b[3]", bits(11, 1) | bits(21, 1))


def floats(name: Name) -> Form | None:
    """Fused sums of floats: FMLA, FMADD and those of complex numbers."""
    root = name.word.removesuffix("2")
    if root in _FUSED:
        element = name.element
        text = f"{name.word} {element}{{d}}, {element}{{n}}, {element}{{m}}, {element}{{a}}"
        return _with_chain(Form(text), name)
    if root in {"fmlal", "fmlsl"}:
        narrow = "4h"
        return _with_chain(Form(three(name.word, WHOLE[WIDER[name.element]], narrow, narrow, True)), name)
    if root == "fcmla":
        return _complex(name)
    return _with_chain(_multiply(name), name)


def _complex(name: Name) -> Form:
    degrees = next(note.removeprefix("deg = ") for note in name.notes if note.startswith("deg"))
    if name.notes[0] == "elem":
        last = (LAST_LANE[name.element] + 1) // 2 - 1
        start = f"fcmla v{{D}}.{name.whole}, v{{n}}.{name.whole}, v{{m}}.{name.element}[{last}]"
        return Form(f"{start}, #{degrees}", bits(13, 2) | bits(11, 1) | bits(21, 1) * (name.element == "h"))
    text = f"{three(name.word, name.whole, name.whole, name.whole, into=True)}, #{degrees}"
    return _with_chain(Form(text, bits(11, 2)), name)
