"""Einsum of two arrays as a matrix product, with transposes and reshapes around it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from compiler.passes.legalize.writer import Writer, vector

Term = tuple[str, ...]
"""The labels of an array's axes; those of an ellipsis are numbers, counted from its end."""


def product(writer: Writer) -> bool:
    """Where every label that is summed is of both arrays, and no array has one twice."""
    if len(writer.node.input) != 2 or writer.info(0).dtype != "float32":
        return False
    shapes = [writer.info(place).shape for place in (0, 1)]
    first, second, out = terms(writer.attributes["equation"].decode(), [len(shape) for shape in shapes])
    extents = dict(zip(first, shapes[0], strict=True))
    others = dict(zip(second, shapes[1], strict=True))
    if any(len(set(term)) < len(term) for term in (first, second, out)):
        return False
    if any((label in extents) != (label in others) for label in (*first, *second) if label not in out):
        return False
    if any(not label.isdigit() and extents.get(label, size) != size for label, size in others.items()):
        return False
    if any(label.isdigit() and label not in out for label in (*first, *second)):
        return False
    names = list(writer.node.input)
    if out and out[-1] in extents and out[-1] not in others:
        # The columns of the product are the right array's.
        names, first, second, extents, others = names[::-1], second, first, others, extents
    batch = tuple(label for label in out if label in extents and label in others)
    rows = tuple(label for label in out if label not in others)
    columns = tuple(label for label in out if label not in extents)
    summed = tuple(label for label in first if label in others and label not in out)
    left = _matrices(writer, names[0], first, batch, rows, summed, extents)
    right = _matrices(writer, names[1], second, batch, summed, columns, others)
    steps: list[tuple[str, dict[str, Sequence[int]]]] = [("MatMul", {})]
    found = (*batch, *rows, *columns)
    whole = {label: max(extents.get(label, 1), others.get(label, 1)) for label in found}
    if len(rows) != 1 or len(columns) != 1:
        steps.append(("Reshape", {"shape": [whole[label] for label in found]}))
    if found != out:
        steps.append(("Transpose", {"perm": [found.index(label) for label in out]}))
    inputs = [left, right]
    for place, (op, said) in enumerate(steps):
        operands = [*inputs, writer.constant(vector(*said["shape"]))] if op == "Reshape" else inputs
        attributes = {} if op == "Reshape" else said
        if place == len(steps) - 1:
            writer.finish(op, *operands, **attributes)
        else:
            inputs = [writer.add(op, *operands, **attributes)]
    return True


def terms(equation: str, ranks: Sequence[int]) -> tuple[Term, Term, Term]:
    """The labels of two arrays and of the result."""
    said, arrow, result = equation.replace(" ", "").partition("->")
    words = said.split(",")
    first, second = (_labels(word, rank) for word, rank in zip(words, ranks, strict=True))
    hidden = sorted({label for label in (*first, *second) if label.isdigit()}, key=int, reverse=True)
    if not arrow:
        letters = said.replace(",", "").replace(".", "")
        result = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
        return first, second, (*hidden, *result)
    before, dots, after = result.partition("...")
    return first, second, (*before, *(hidden if dots else ()), *after)


def _labels(word: str, rank: int) -> Term:
    before, _, after = word.partition("...")
    count = rank - len(before) - len(after)
    return (*before, *(str(place) for place in range(count - 1, -1, -1)), *after)


def _matrices(
    writer: Writer, name: str, term: Term, batch: Term, rows: Term, columns: Term, extents: dict[str, int]
) -> str:
    order = (*batch, *rows, *columns)
    if order != term:
        name = writer.add("Transpose", name, perm=[term.index(label) for label in order])
    if len(rows) == len(columns) == 1:
        return name
    sizes = [math.prod(extents[label] for label in labels) for labels in (rows, columns)]
    return writer.add("Reshape", name, writer.constant(vector(*(extents[label] for label in batch), *sizes)))
