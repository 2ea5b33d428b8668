"""What a calibration finds: figures, each with how it was found, or why it was not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """``value`` is None where nothing could be told; ``how`` says how it was measured, or why not.

    ``name`` is one of ``[board.figures]`` where ``pasted``; others are for people. ``spread`` is by how much
    repeats differed, as part of the value.
    """

    name: str
    value: float | None
    unit: str
    how: str
    spread: float = 0.0
    pasted: bool = True

    @property
    def whole(self) -> int | None:
        """As a fleet file says it, where that can be."""
        return None if self.value is None or not self.pasted else max(1, round(self.value))

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Figure:
        """From ``to_json``."""
        return Figure(**data)
