"""A family's knobs as typed fields, read from a config in one place."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, Self, get_type_hints

from kernels.space import Config

Block = tuple[int, int]
"""What a config writes as ``6x16``."""


@dataclass(frozen=True)
class KnobSet:
    """Base of a family's frozen dataclass of knobs: a field a knob, of type int, bool, str or ``Block``.

    A field with a default is a knob that not every space has, as ``split`` without threads.
    """

    @classmethod
    def of(cls, config: Config) -> Self:
        """The knobs of ``config``; KeyError or ValueError when one is missing or not of its type."""
        given = dict(config.knobs)
        values: dict[str, Any] = {}
        family: Any = cls  # mypy takes no class for hashable
        for name, kind, required in _fields_of(family):
            if name in given:
                values[name] = _read(config, name, given[name], kind)
            elif required:
                raise KeyError(name)
        return cls(**values)


@cache
def knobs_of(plan: Any) -> Any:
    """The family's ``KnobSet``: what a class of plans declares its field ``knobs`` to be."""
    return get_type_hints(plan)["knobs"]


@cache
def _fields_of(cls: Any) -> list[tuple[str, Any, bool]]:
    hints = get_type_hints(cls)
    return [(each.name, hints[each.name], each.default is MISSING) for each in fields(cls)]


def _read(config: Config, name: str, value: int | str, kind: Any) -> Any:
    if kind is str:
        return str(value)
    if kind == Block:
        first, second = map(int, str(value).split("x"))
        return first, second
    if not isinstance(value, int):
        raise ValueError(f"{config.kernel}: knob {name} must be a number, got {value!r}")
    return bool(value) if kind is bool else value
