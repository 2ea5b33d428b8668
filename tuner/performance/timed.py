"""What a built model takes on a board, function by function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """One function of a built model: what it computes, by which config, and seconds of all its calls.

    ``key`` is the workload's key, or of what is not tuned the kind of function and the shapes that it takes.
    ``nodes`` are the model's that it computes, where that is known, and ``code`` is the hash of its object.
    """

    name: str
    key: str
    nodes: tuple[str, ...]
    config: Mapping[str, Any] | None
    calls: int
    seconds: float
    code: str

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**vars(self), "nodes": list(self.nodes)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Part:
        """What ``to_json`` wrote."""
        return cls(**{**value, "nodes": tuple(value["nodes"])})


@dataclass(frozen=True)
class Timed:
    """A model as it was built and run: its parts in the order in which they first run."""

    parts: Sequence[Part]

    @property
    def seconds(self) -> float:
        """What all of it takes: on a board its functions are called one by one."""
        return sum(part.seconds for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; the sum is for who reads the file."""
        return {"seconds": self.seconds, "parts": [part.to_json() for part in self.parts]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Timed:
        """What ``to_json`` wrote."""
        return cls(tuple(Part.from_json(each) for each in value["parts"]))
