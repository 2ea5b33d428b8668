"""Sets of input shapes: a shape of every input that leaves one open. A module may take several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Shapes = Mapping[str, Sequence[int]]
MOST_SETS = 64
"""In one module: each is imported, planned and compiled by itself."""
GivenShapes = Shapes | Sequence[Shapes] | None
"""What a user gives: nothing where the file says all, one set, or several."""


def sets_of(given: GivenShapes) -> tuple[Shapes, ...]:
    """The sets of shapes, at least one; ModelError for more than MOST_SETS."""
    if given is None or isinstance(given, Mapping):
        return (given or {},)
    sets: list[Shapes] = []
    for each in given:
        if each not in sets:
            sets.append(each)
    if len(sets) > MOST_SETS:
        # Here, because it brings onnx along, which those who only read options should not wait for.
        from tuner.frontend.onnx_check import ModelError

        raise ModelError(f"one module takes at most {MOST_SETS} sets of input shapes, not {len(sets)}")
    return tuple(sets) or ({},)


def text_of(shapes: Mapping[str, Sequence[int]]) -> str:
    """One set as --shape takes it: ``ids=1,128 mask=1,128``."""
    return " ".join(f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items())


def given_of(sets: Sequence[Shapes]) -> dict[str, list[int]] | list[dict[str, list[int]]] | None:
    """Sets as plain JSON values that ``sets_of`` reads: one set stands for itself."""
    plain = [{name: list(shape) for name, shape in each.items()} for each in sets]
    return plain if len(plain) > 1 else (plain[0] if plain else None) or None
