"""Indices, extents and conditions of a loop nest as functions of the loops' variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Values = Mapping[int, int]
"""By loop number: the value of its variable. Those that are missing count as 0."""
_WORDS = {"min", "max"}


@dataclass(frozen=True)
class Index:
    """An integer expression: how it reads, which loops it depends on, and its value."""

    text: str
    uses: frozenset[int]
    at: Callable[[Values], int]

    @classmethod
    def number(cls, value: int) -> Index:
        """A constant."""
        return cls(str(value), frozenset(), lambda _: value)

    @classmethod
    def variable(cls, number: int, name: str) -> Index:
        """The variable of a loop."""
        return cls(name, frozenset({number}), lambda values: values.get(number, 0))

    @classmethod
    def operation(cls, name: str, compute: Callable[[int, int], int], one: Index, other: Index) -> Index:
        """A binary operation, folded when both sides are constant."""
        if not one.uses and not other.uses:
            return cls.number(int(compute(one.at({}), other.at({}))))
        if (name, other.constant) in (("+", 0), ("-", 0), ("*", 1), ("//", 1)):
            return one
        if name == "+" and one.constant == 0:
            return other
        first, second = one.at, other.at
        text = f"{name}({one.text}, {other.text})" if name in _WORDS else f"{one.text} {name} {other.text}"
        if name in ("*", "//", "%", "+", "-"):
            text = f"({text})"
        return cls(text, one.uses | other.uses, lambda values: int(compute(first(values), second(values))))

    @property
    def constant(self) -> int | None:
        """The value when it depends on no loop."""
        return None if self.uses else self.at({})
