"""What is known of a built model: whether it is as defined, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Check:
    """How a built model, run on ``where``, compares with its definition, as ``by`` computes it.

    ``errors`` are those of its outputs, and ``allowed`` is how large each may be: ``tolerance``, or more
    where the model itself makes more of a little difference in its inputs. ``wrong`` says which tensor is the
    first that is wrong and how; where it is empty and ``skipped`` as well, the model is right. ``skipped``
    says why nothing was compared.
    """

    tolerance: float
    errors: dict[str, float] = field(default_factory=dict)
    allowed: dict[str, float] = field(default_factory=dict)
    by: str = ""
    wrong: str = ""
    skipped: str = ""
    where: str = ""

    @property
    def checked(self) -> bool:
        """Whether the model was compared, and is right."""
        return not self.wrong and not self.skipped

    def __str__(self) -> str:
        """What came out, for people."""
        if self.wrong or self.skipped:
            return f"wrong: {self.wrong}" if self.wrong else f"not checked: {self.skipped}"
        worst = max(self.errors, key=lambda name: self.errors[name] / self.allowed[name])
        error, allowed = self.errors[worst], self.allowed[worst]
        where = f" on {self.where}" if self.where else ""
        return (
            f"checked{where}: {worst} differs by {error:.1g} from what {self.by} computes, "
            f"{allowed:.1g} is allowed"
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"checked": self.checked, "check": {**vars(self)}}


@dataclass(frozen=True)
class Delivery:
    """A built model: whether it is right, and what it takes.

    ``seconds`` is the median of its runs and ``spread`` their interquartile range over that; ``other_s`` is
    the part of it in which no tuned layer is computed. They are None of a model that is wrong. ``in_place``
    is how many times as long as by themselves the heaviest layers took inside a model, where they were
    compared there: what the others leave in the caches is not what a layer leaves to itself. ``sha256``
    is that of the module's file, where one was sent to a board. ``operators`` are what the seconds are spent
    in, the longest first: ``name``, the workload's ``key`` or an empty one, ``calls``, ``seconds`` of all.
    """

    check: Check
    seconds: float | None = None
    spread: float | None = None
    other_s: float | None = None
    in_place: float = 1.0
    sha256: str = ""
    operators: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**vars(self), **self.check.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Delivery:
        """What ``to_json`` wrote."""
        names = ("seconds", "spread", "other_s", "in_place", "sha256", "operators")
        figures = {name: value[name] for name in names if name in value}
        return cls(Check(**value["check"]), **figures)
