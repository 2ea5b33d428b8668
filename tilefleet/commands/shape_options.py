"""``--shape``: one set of input shapes, or several for one module."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated

import typer

from tuner.intake.shapes import sets_of, text_of

Set = dict[str, list[int]]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Shape of a dynamic input: name=1,3,224,224, or of several: 'ids=1,64 mask=1,64'. Repeatable, "
        "for other inputs, or for other shapes of the same, all of which one module then takes.",
    ),
]
_ONE = re.compile(r"\s*(.+?)=(\d+(?:,\d+)*)(?=\s|$)")
_HINT = "--shape"


def read_sets(texts: list[str] | None) -> list[Set]:
    """Values of --shape as sets of shapes by input name: none, one or several.

    Where an input is named again, each value that names it is a set of its own, and what is named but once
    belongs to all sets.
    """
    values = [_read(text) for text in texts or []]
    named = Counter(name for value in values for name in value)
    again = {name for name, count in named.items() if count > 1}
    common: Set = {}
    sets: list[Set] = []
    for value in values:
        if again.isdisjoint(value):
            common |= value
        else:
            sets.append(value)
    for each in sets:
        missing = sorted({name for other in sets for name in other} - each.keys())
        if missing:
            raise typer.BadParameter(
                f"{text_of(each)!r} is a set of shapes without {missing[0]!r}, which others have: give all "
                f"inputs of a set in one value, like --shape {_example(each, missing)!r}",
                param_hint=_HINT,
            )
    try:
        found = sets_of([{**common, **each} for each in sets] or common)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=_HINT) from None
    return [{name: [*shape] for name, shape in each.items()} for each in found if each]


def _example(each: Set, missing: list[str]) -> str:
    return text_of({**each, **dict.fromkeys(missing, next(iter(each.values())))})


def _read(text: str) -> Set:
    found: Set = {}
    at = 0
    while at < len(text.rstrip()):
        match = _ONE.match(text, at)
        if match is None or match[1] in found:
            raise typer.BadParameter(
                f"{text!r} is not like name=1,3,224,224 or 'ids=1,64 mask=1,64'", param_hint=_HINT
            )
        found[match[1]], at = [int(size) for size in match[2].split(",")], match.end()
    if not found:
        raise typer.BadParameter(f"{text!r} is not like name=1,3,224,224", param_hint=_HINT)
    return found
