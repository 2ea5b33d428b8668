"""``--shape``: one set of input shapes, or several for one module."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from compiler.intake.shapes import LEAST_LENGTHS, MOST_SETS, Extent, OpenRange, given_sets, is_open, text_of

Set = dict[str, list[Extent]]
FixedSet = dict[str, list[int]]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Shape of a dynamic input: name=1,3,224,224, or of several: 'ids=1,64 mask=1,64'. Repeatable, "
        "for other inputs, or for other shapes of the same, all of which one module then takes; "
        "name=1,8..512:8 is a shape each for 8, 16 and so on to 512, and name=1,1..512 any size of that "
        "range.",
    ),
]
_SIZE = r"\d+(?:\.\.\d+(?::\d+)?)?"
_ONE = re.compile(rf"\s*(.+?)=({_SIZE}(?:,{_SIZE})*)(?=\s|$)")


def read_sets(texts: list[str] | None) -> list[Set]:
    """Values of --shape as sets of shapes by input name: none, one or several.

    Where an input is named again, each value that names it is a set of its own, and what is named but once
    belongs to all sets. A value with a range is as many values as that has sizes.
    """
    values = [each for text in texts or [] for each in _read(text)]
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
            raise _bad(
                f"{text_of(each)!r} is a set of shapes without {missing[0]!r}, which others have: give all "
                f"inputs of a set in one value, like --shape {_example(each, missing)!r}"
            )
    try:
        found = given_sets([{**common, **each} for each in sets] or common)
    except ValueError as error:
        raise _bad(str(error)) from None
    return [{name: [*shape] for name, shape in each.items()} for each in found if each]


def read_fixed(texts: list[str] | None, what: str) -> FixedSet:
    """Values of --shape for ``what`` takes one set of shapes, all sizes known."""
    sets = read_sets(texts)
    if len(sets) > 1 or any(map(is_open, sets)):
        raise _bad(f"{what} takes one set of shapes, without ranges")
    return {name: [int(size) for size in shape] for each in sets for name, shape in each.items()}


def _example(each: Set, missing: list[str]) -> str:
    return text_of({**each, **dict.fromkeys(missing, next(iter(each.values())))})


def _read(text: str) -> list[Set]:
    """The sets of one value: several where it has ranges, which go up together."""
    given: dict[str, list[Sequence[Extent]]] = {}
    at = 0
    while at < len(text.rstrip()):
        match = _ONE.match(text, at)
        if match is None or match[1] in given:
            raise _bad(f"{text!r} is not like name=1,3,224,224 or 'ids=1,64 mask=1,64'")
        given[match[1]], at = [_sizes(size) for size in match[2].split(",")], match.end()
    if not given:
        raise _bad(f"{text!r} is not like name=1,3,224,224")
    counts = {len(sizes) for shape in given.values() for sizes in shape} - {1}
    if len(counts) > 1:
        numbers = " and ".join(map(str, sorted(counts)))
        raise _bad(f"{text!r} has ranges of {numbers} sizes, which go together")
    if max(counts, default=1) > MOST_SETS:
        raise _bad(
            f"one module takes at most {MOST_SETS} sets of input shapes, and {text!r} is {max(counts)}: take "
            "a range in steps, like 8..512:8"
        )
    turns = range(max(counts, default=1))
    return [
        {name: [sizes[turn % len(sizes)] for sizes in shape] for name, shape in given.items()}
        for turn in turns
    ]


def _sizes(text: str) -> Sequence[Extent]:
    """One size, or those of a range: ``8..64:8`` is 8, 16 and so on to 64. A range without a step is itself,
    to be left open, unless it has but a few sizes."""
    ends, _, step = text.partition(":")
    first, _, last = ends.partition("..")
    low, high, by = int(first), int(last or first), int(step or 1)
    if not step and high - low >= LEAST_LENGTHS:
        try:
            return [str(OpenRange.read(text))]
        except ValueError as error:
            raise _bad(str(error)) from None
    sizes = range(low, high + 1, by) if by else range(0)
    if not sizes or sizes[-1] != high:
        raise _bad(f"{text!r} does not go from {low} to {high} in steps of {by}")
    return sizes


def _bad(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--shape")
