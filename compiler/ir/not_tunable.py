"""What is said of a product that no kernel computes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NotTunable:
    """A node that no kernel computes though it is a product; and why. ``flops`` are its operations, two a
    multiply-add, None where its shapes do not tell."""

    node: str
    op: str
    reason: str
    flops: int | None = None
